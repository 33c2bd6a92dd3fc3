/** Finds names by globs without reading all of them. */
import { modelName } from '../../core/model-name.ts'
import { type Glob, matchesGlob } from '../accounts/glob.ts'

export class NameIndex {
  /** Normal forms with their names, in order. */
  readonly #entries: readonly (readonly [normal: string, name: string])[]

  constructor(names: Iterable<string>) {
    this.#entries = [...names]
      .map((name) => [modelName(name), name] as const)
      .sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0))
  }

  /** The names that one of the globs matches. */
  matching(globs: readonly Glob[]): Set<string> {
    const found = new Set<string>()
    for (const glob of globs)
      for (let at = this.#from(glob.first); at < this.#entries.length; at++) {
        const [normal = '', name = ''] = this.#entries[at] ?? []
        if (!normal.startsWith(glob.first)) break
        if (matchesGlob(glob, normal)) found.add(name)
      }
    return found
  }

  /** The first place whose name is not before this text. */
  #from(text: string): number {
    let [low, high] = [0, this.#entries.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#entries[middle]?.[0] ?? '') < text) low = middle + 1
      else high = middle
    }
    return low
  }
}
