import { type Stats, statSync } from 'node:fs'

/** Returns a check whether one of the paths no longer leads to the file that is there now: deleted, moved, or hidden by a mount. */
export const watchMoved = (paths: readonly string[]): (() => boolean) => {
  const opened = paths.map((path) => ({ path, stats: statsOf(path) }))
  return () => opened.some(({ path, stats }) => !isSame(stats, statsOf(path)))
}

/** Undefined if the path leads to no file or cannot be followed. */
const statsOf = (file: string): Stats | undefined => {
  try {
    return statSync(file, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

const isSame = (opened: Stats | undefined, now: Stats | undefined): boolean =>
  opened?.ino === now?.ino && opened?.dev === now?.dev
