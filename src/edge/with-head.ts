/** A head (Latin-1) and the bytes behind it as one piece, which leaves in one write. */
export const withHead = (head: string, body: Uint8Array): Buffer => {
  const all = Buffer.allocUnsafe(head.length + body.length)
  all.write(head, 'latin1')
  all.set(body, head.length)
  return all
}
