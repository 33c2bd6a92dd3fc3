/** A header's value by lower-case name. */
export type HeaderLookup = ((name: string) => string | undefined) & {
  /**
   * The names in the header block, if known. Blocks with the same names share one object. A reader of many headers can
   * therefore cache which of them an upstream sends, as `quotaIn` does for rate limits.
   */
  readonly names?: HeaderNames
}

export type HeaderNames = Pick<ReadonlyMap<string, unknown>, 'has'>

/** The name of a header, in lower case. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,128}$/
