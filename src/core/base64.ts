/** Encodes a text as UTF-8 in base64. */
export const toBase64 = (text: string): string => {
  if (ASCII.test(text)) return btoa(text)
  const bytes = new TextEncoder().encode(text)
  let binary = ''
  // In slices: an argument list of a million entries overflows the stack.
  for (let at = 0; at < bytes.length; at += 8_192) binary += String.fromCharCode(...bytes.subarray(at, at + 8_192))
  return btoa(binary)
}

const ASCII = /^[\0-\x7f]*$/
