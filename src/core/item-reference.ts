/** References to stored items in requests of the responses format. */
import type { Json } from './json.ts'

/**
 * Whether an item refers to an earlier one by its ID. Its type may be absent or null (OpenAI's published schema,
 * `ItemReferenceParam`). A generated image without its bytes is one too (OpenAI's guide to image generation, multi-turn
 * editing with the ID of the image).
 */
export const isItemReference = ({ type, role, id, result }: { readonly [member: string]: Json | undefined }): boolean =>
  type === 'item_reference' ||
  ((type ?? null) === null && (role ?? null) === null && (id ?? null) !== null) ||
  (type === 'image_generation_call' && result === undefined)
