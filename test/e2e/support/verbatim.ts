/** A request with exactly these headers, and its response as it was sent: not decoded, no redirect followed. */
import { once } from 'node:events'
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'

export type Verbatim = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: Buffer }

export const verbatim = async (
  url: string,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<Verbatim> => {
  const sent = request(url + path, { headers, agent: false }).end()
  // The event has one argument.
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const pieces: Buffer[] = []
  for await (const piece of response) pieces.push(piece as Buffer)
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(pieces) }
}
