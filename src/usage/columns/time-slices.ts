/** Parts of a range of time, in which many rows are read by short statements. */

/** The first part in ms, the least one, and by how much the next one may be wider. */
export const WIDTH = { first: 300_000, least: 1_000, factor: 4, most: 16 }
/** ms that a statement should take. */
const TAKES = 80

/** In ms since 1970; the end is exclusive. */
export type TimeSlice = { readonly from: number; readonly to: number }

/** `time`: ms of any clock. `turn`: lets others run. */
type SliceClock = { readonly time: () => number; readonly turn: () => Promise<unknown> }

type Direction = 'newest first' | 'oldest first'

/** The parts of a range. Their width follows the time that the caller takes for one. */
export async function* slicesOf(
  { time, turn }: SliceClock,
  { from, to }: TimeSlice,
  direction: Direction,
): AsyncGenerator<TimeSlice> {
  const length = to - from
  let width = WIDTH.first
  for (let done = 0; done < length; ) {
    if (done > 0) await turn()
    const end = Math.min(length, done + width)
    const began = time()
    yield direction === 'newest first' ? { from: to - end, to: to - done } : { from: from + done, to: from + end }
    width = nextWidth(width, time() - began)
    done = end
  }
}

/** How wide the part after one should be that took so many ms. */
export const nextWidth = (width: number, took: number): number => {
  if (took < TAKES / WIDTH.most) return width * WIDTH.most
  if (took < TAKES / WIDTH.factor) return width * WIDTH.factor
  return took > TAKES ? Math.max(WIDTH.least, Math.floor((width * TAKES) / took)) : width
}
