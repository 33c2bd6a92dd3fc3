/**
 * A text and the UTF-8 bytes it was decoded from. Text that is forwarded unchanged is written as these bytes: encoding it
 * again would cost more than decoding did.
 */
export type EncodedText = { readonly text: string; readonly bytes: Uint8Array }

/** Text to send, as a string or as its UTF-8 bytes. */
export type TextOrBytes = string | Uint8Array

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export const textOf = (piece: TextOrBytes): string => (typeof piece === 'string' ? piece : decoder.decode(piece))
