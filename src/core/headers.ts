/** A header's value by lower-case name. */
export type HeaderLookup = ((name: string) => string | undefined) & {
  /** The header names, if known: the same object for all header blocks with the same names. */
  readonly names?: HeaderNames
}

export type HeaderNames = Pick<ReadonlyMap<string, unknown>, 'has'>
