/** A JSON value. External data is `unknown` until a decoder has validated it; then it has this type. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export type JsonObject = { readonly [member: string]: Json | undefined }
