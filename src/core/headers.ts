/** A header's value by lower-case name. */
export type HeaderLookup = ((name: string) => string | undefined) & {
  /** Which names there are, where that is known: the same object for every head with the same names. */
  readonly names?: HeaderNames
}

export type HeaderNames = Pick<ReadonlyMap<string, unknown>, 'has'>
