/** How answers are cached for a route, a team or a key. */
export type CacheRules = {
  /** s for which an answer is used again; 0: no answer is cached. */
  readonly ttl: number
  /** Who shares an answer: the requests of one key, or of all keys of a team. */
  readonly scope: 'key' | 'team'
  /** Also requests whose answers vary: those with a temperature above 0 and without a seed. */
  readonly anyTemperature: boolean
  /** Also requests that declare tools. An answer that calls a tool is never cached. */
  readonly tools: boolean
  /** Whether `Cache-Control` of a request applies. */
  readonly requestControl: boolean
}
