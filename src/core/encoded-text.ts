/**
 * A text, and its UTF-8 bytes if they are available. Text that is forwarded is written as these bytes, because encoding it
 * again costs more than decoding did.
 */
export type EncodedText = { readonly text: string; readonly bytes?: Uint8Array | undefined }

/** Text to send, as a string or as its UTF-8 bytes. */
export type TextOrBytes = string | Uint8Array

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** The bytes of a text if they are available, otherwise the text. Bytes are returned as they are. */
export const bytesOrText = (body: EncodedText | Uint8Array): TextOrBytes =>
  body instanceof Uint8Array ? body : (body.bytes ?? body.text)

export const textOf = (piece: TextOrBytes): string => (typeof piece === 'string' ? piece : decoder.decode(piece))
