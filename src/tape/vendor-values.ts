/** Values of requests in the shape of a vendor, as they are recorded: without members that do not matter, and without credentials. */
import { isList, isObject, type Json } from '../core/json.ts'

/** Members for places that the request calls, such as MCP servers. */
const CREDENTIAL = /^(?:authorization|authorization_token|api_key|access_token|headers)$/i
const MARK = '[CREDENTIAL]'

/** Members for cache marks and earlier reasoning. */
const NO_MATTER = /^(?:cache_control|signature|encrypted_content)$/

/** Schemas and arguments of calls: the names of their members are those of the client. */
const OF_THE_CLIENT =
  /^(?:schema|json_?schema|(?:input|output|response)_?schema|response_?json_?schema|parameters|arguments|args)$/i

/** Headers whose values are searched for in the whole exchange. Values of others are only replaced. */
const SECRET_HEADER = /auth|key|token|cookie|secret|pass|signature/i

/** Copies values. `credentials`: the texts that it has replaced. */
export class VendorValues {
  readonly credentials: string[] = []

  value(value: unknown): Json {
    if (isList(value)) return value.map((item) => this.value(item))
    // Settings and members are JSON.
    if (!isObject(value)) return value as Json
    const members = Object.entries(value).filter(([name]) => !NO_MATTER.test(name))
    return Object.fromEntries(members.map(([name, inner]) => [name, this.member(name, inner)]))
  }

  member(name: string, value: unknown): Json {
    // Calls of hosted tools have their arguments in `input`; lists there are messages.
    const isOwn = OF_THE_CLIENT.test(name) || (name === 'input' && isObject(value))
    // Members are JSON.
    if (isOwn) return value as Json
    if (!CREDENTIAL.test(name) || value === null || value === undefined) return this.value(value)
    this.#collect(value, /^headers$/i.test(name))
    return MARK
  }

  #collect(value: unknown, areHeaders: boolean): void {
    if (typeof value === 'string') this.credentials.push(value.replace(/^(?:Bearer|Basic)\s+/i, ''))
    else if (isList(value)) for (const item of value) this.#collect(item, areHeaders)
    else if (isObject(value))
      for (const [name, inner] of Object.entries(value))
        if (!areHeaders || SECRET_HEADER.test(name)) this.#collect(inner, false)
  }
}
