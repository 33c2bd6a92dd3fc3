/** A text without the slashes at its end. The expression `\/+$` would take quadratic time. */
export const withoutSlashes = (text: string): string => {
  let end = text.length
  while (end > 0 && text[end - 1] === '/') end--
  return text.slice(0, end)
}
