/** The names of the relayed endpoints: also their styles in the log and in the `styles` of a key. */
export const RELAY_NAMES = [
  'moderations',
  'transcriptions',
  'translations',
  'speech',
  'images',
  'image-edits',
  'image-variations',
  'rerank',
] as const

export type RelayName = (typeof RELAY_NAMES)[number]
