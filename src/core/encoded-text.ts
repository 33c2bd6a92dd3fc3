/**
 * A text and the UTF-8 bytes it was decoded from. Text that is forwarded unchanged is written as these bytes: encoding it
 * again would cost more than decoding did.
 */
export type EncodedText = { readonly text: string; readonly bytes: Uint8Array }
