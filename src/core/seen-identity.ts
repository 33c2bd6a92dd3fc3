/** A subject of an issuer that has called. Plain JSON data, since processes exchange it. */
export type SeenIdentity = {
  /** `jwt_` and 12 lower-case letters. */
  readonly id: string
  /** The name of the rule by which it called last. */
  readonly rule: string
  readonly issuer: string
  readonly subject: string
  readonly user: string | null
  /** As its token names it. */
  readonly team: string
  /** ms since 1970, in this run of the process. */
  readonly first: number
  readonly last: number
}
