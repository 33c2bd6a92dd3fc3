/**
 * A text, and its UTF-8 bytes if they are available. Text that is forwarded is written as these bytes, because encoding it
 * again costs more than decoding did.
 */
export type EncodedText = { readonly text: string; readonly bytes?: Uint8Array | undefined }

/** Text to send, as a string or as its UTF-8 bytes. */
export type TextOrBytes = string | Uint8Array

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export const textOf = (piece: TextOrBytes): string => (typeof piece === 'string' ? piece : decoder.decode(piece))
