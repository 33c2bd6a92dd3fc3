/** Decodes percent-encoded UTF-8. Undefined: an escape is malformed, or the bytes are not UTF-8. */
export const percentDecoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    // Clients write such texts: the caller says what follows.
    return undefined
  }
}
