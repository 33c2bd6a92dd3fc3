/** Collects the problems and warnings of the accounts in the file, each with its place. */
import { type Problem, partsOf } from './problem.ts'

/** Of a value in the file: section, name, member and so on. */
export type Path = readonly PropertyKey[]

/** Where a value is written, and its source text. */
export type PlaceInFile = (path: Path) => {
  readonly name: string
  readonly value: string
  readonly written: string
  readonly filled: boolean
}

export class AccountReport {
  readonly problems: Problem[] = []
  readonly warnings: string[] = []
  readonly placeOf: PlaceInFile

  constructor(placeOf: PlaceInFile) {
    this.placeOf = placeOf
  }

  refuse(path: Path, found: string, allowed: string, at: 'name' | 'value' = 'value'): void {
    const where = this.placeOf(path)[at]
    this.problems.push({ where, what: path.join('.'), found, allowed })
  }

  /** Refuses with a message of the policy: its last sentence is the remedy. */
  sentence(path: Path, message: string | null, at: 'name' | 'value' = 'value'): void {
    if (message === null) return
    const { found, allowed } = partsOf(message)
    this.refuse(path, found, allowed, at)
  }

  warn(message: string): void {
    this.warnings.push(message)
  }
}
