/** Globs of paths by segment: `*` is any text within one segment, `**` any number of segments. */
import { exactGlob, type Glob, matchesGlob } from '../accounts/glob.ts'

const ANY = '**'
type GlobSegment = Glob | typeof ANY
export type PathGlob = readonly GlobSegment[]

export const parsePathGlob = (text: string): PathGlob =>
  text
    .split('/')
    .slice(1)
    .map((segment) => (segment === ANY ? ANY : exactGlob(segment)))

/** Whether a glob matches a whole path. Each segment is compared with each part at most once. */
export const matchesPath = (glob: PathGlob, path: string): boolean => {
  let reached: ReadonlySet<number> = closed(glob, new Set([0]))
  for (const segment of path.split('/').slice(1)) {
    const next = new Set<number>()
    for (const at of reached) {
      const part = glob[at]
      if (part === ANY) next.add(at)
      else if (part && matchesGlob(part, segment)) next.add(at + 1)
    }
    reached = closed(glob, next)
  }
  return reached.has(glob.length)
}

/** `**` also matches no segment. */
const closed = (glob: PathGlob, places: Set<number>): ReadonlySet<number> => {
  for (const at of places) if (glob[at] === ANY) places.add(at + 1)
  return places
}

/** What is wrong with a glob as configured; null: nothing. */
export const pathGlobProblem = (text: string): string | null => {
  if (!text.startsWith('/')) return 'begins with a slash, such as /v1/files/**'
  if (/[^\x21-\x7e]|[\\;?#%]|\/\/|\/\.{1,2}(?:\/|$)/.test(text))
    return 'a path without escapes, dots and empty segments'
  return text.split('/').some((segment) => segment !== ANY && segment.includes(ANY)) ? '** alone in its segment' : null
}
