/** References to stored items in requests of the responses format. */
import type { Json } from './json.ts'

/**
 * Whether an item refers to an earlier one by its ID. Its type may be absent or null (OpenAI's published schema,
 * `ItemReferenceParam`).
 */
export const isItemReference = ({ type, role, id }: { readonly [member: string]: Json | undefined }): boolean =>
  type === 'item_reference' || ((type ?? null) === null && (role ?? null) === null && (id ?? null) !== null)
