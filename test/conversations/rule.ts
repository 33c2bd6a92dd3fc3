/** Rules of a vendor: conditions for a refusal and the error it returns. Also helpers that walk request bodies. */
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'

/** An error response in the vendor's format. */
export type VendorRefusal = { readonly status: number; readonly body: JsonObject }

/** The context of a rule besides the body. */
export type Context = {
  readonly model: string
  /** Whether this vendor generated this signature, encrypted text or item id. */
  readonly isOwn: (signature: string) => boolean
  /** Whether this vendor has stored this response or item. */
  readonly isStored: (id: string) => boolean
}

/** Returns the vendor's refusal of a request body, or null where it accepts the body. */
export type Rule = (body: JsonObject, context: Context) => VendorRefusal | null

/** Rules by name; the first refusal is the vendor's response. */
export type Rules = { readonly [name: string]: Rule }

export const objects = (value: Json | undefined): readonly JsonObject[] => list(value).filter(isObject)

/** Items paired with their index in the unfiltered list. */
export const indexed = (value: Json | undefined): readonly (readonly [index: number, item: JsonObject])[] =>
  list(value).flatMap((item, index) => (isObject(item) ? [[index, item] as const] : []))

/** The first refusal that `check` returns for an item of the list. */
export const firstOf = (
  value: Json | undefined,
  check: (item: JsonObject, index: number) => VendorRefusal | null,
): VendorRefusal | null => {
  for (const [index, item] of indexed(value)) {
    const refusal = check(item, index)
    if (refusal) return refusal
  }
  return null
}

/** The first member of an object that is not in the list. */
export const unknownMember = (value: JsonObject, known: ReadonlySet<string>): string | undefined =>
  Object.keys(value).find((name) => value[name] !== undefined && !known.has(name))

/** Content as a list of parts, whatever its form. */
export const partsOf = (content: Json | undefined): readonly JsonObject[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : objects(content)

/** The ids of the calls of an assistant message in chat completions. */
export const callIds = (message: JsonObject): readonly string[] =>
  objects(message.tool_calls).map(({ id }) => text(id) ?? '')

export const isEmpty = (value: Json | undefined): boolean =>
  value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)

/** An error in OpenAI's form, which most vendors of chat completions copy. */
export const openaiError = (
  message: string,
  more: { readonly status?: number; readonly code?: string | null; readonly param?: string | null } = {},
): VendorRefusal => ({
  status: more.status ?? 400,
  body: {
    error: { message, type: 'invalid_request_error', param: more.param ?? null, code: more.code ?? null },
  },
})

/** `enabled`, `adaptive` or `disabled`, where the body has the member. */
export const thinkingType = (body: JsonObject): string | undefined => text(object(body.thinking)?.type)
