/**
 * A strict server with the part of S3's API that the export uses: it refuses what is not signed as S3 requires it. A script
 * decides which requests fail, and where.
 */
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { verify } from './sigv4.ts'

export const S3_KEYS = {
  AWS_ACCESS_KEY_ID: 'AKIDEXPORT',
  AWS_SECRET_ACCESS_KEY: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
} as const
export const S3_BUCKET = 'usage-test'
const WRONG_REGION = 'AuthorizationHeaderMalformed'
const REGION = 'eu-central-1'

/** `lost`: the request is carried out, and its connection is reset before the answer. A number: this status. */
export type S3Fault = 'reset' | 'lost' | 'cut answer' | number

export type S3Request = { readonly number: number; readonly method: string; readonly name: string }

export type FakeS3 = {
  readonly settings: {
    readonly bucket: string
    readonly prefix: string
    readonly region: string
    readonly endpoint: string
  }
  /** Names without bucket, in the order of their first upload. */
  readonly objects: Map<string, Buffer>
  readonly requests: readonly S3Request[]
  /** The lines of all objects that are not states. */
  readonly rows: () => readonly string[]
  /** Called for each request; null: it is answered. */
  fault: (request: S3Request) => S3Fault | null
  readonly close: () => Promise<void>
}

export const fakeS3 = async (): Promise<FakeS3> => {
  const objects = new Map<string, Buffer>()
  const requests: S3Request[] = []
  const server = createServer(async (incoming, response) => {
    const body = await bodyOf(incoming)
    const method = incoming.method ?? ''
    const target = incoming.url ?? ''
    const problem = problemOf(incoming, body)
    if (problem !== null) return answer(response, problem === WRONG_REGION ? 400 : 403, problem)
    const [, bucket = '', ...parts] = target.split('/').map(decodeURIComponent)
    if (bucket !== S3_BUCKET) return answer(response, 404, 'NoSuchBucket')
    const name = parts.join('/')
    const request = { number: requests.length, method, name }
    requests.push(request)
    const fault = made.fault(request)
    if (fault === 'reset') return incoming.socket.resetAndDestroy()
    if (typeof fault === 'number') return answer(response, fault, fault === 503 ? 'SlowDown' : 'AccessDenied')
    if (method === 'PUT') objects.set(name, body)
    if (fault === 'lost') return incoming.socket.resetAndDestroy()
    if (method === 'PUT') return response.writeHead(200).end()
    const object = objects.get(name)
    if (!object) return answer(response, 404, 'NoSuchKey')
    if (fault === 'cut answer') {
      response.writeHead(200, { 'content-length': object.length })
      response.write(object.subarray(0, object.length - 1))
      return setImmediate(() => incoming.socket.resetAndDestroy())
    }
    return response.writeHead(200).end(object)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // A server on a port has an address object.
  const { port } = server.address() as AddressInfo
  const made: FakeS3 = {
    settings: { bucket: S3_BUCKET, prefix: 'a/b=c', region: REGION, endpoint: `http://127.0.0.1:${port}` },
    objects,
    requests,
    rows: () =>
      [...objects].flatMap(([name, body]) =>
        name.endsWith('.gz') ? gunzipSync(body).toString().split('\n').filter(Boolean) : [],
      ),
    fault: () => null,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return made
}

const bodyOf = async (incoming: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = []
  // A request without encoding yields buffers.
  for await (const chunk of incoming) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** S3's code for a request that it refuses; null: it is signed. */
const problemOf = ({ method = '', url = '', headers }: IncomingMessage, body: Buffer): string | null => {
  const signed = { method, target: url, headers, body }
  const verdict = verify(signed, S3_KEYS.AWS_SECRET_ACCESS_KEY)
  if (verdict === null) return 'AccessDenied'
  if (verdict.accessKeyId !== S3_KEYS.AWS_ACCESS_KEY_ID) return 'InvalidAccessKeyId'
  if (verdict.service !== 's3' || verdict.region !== REGION) return WRONG_REGION
  if (headers['x-amz-content-sha256'] !== createHash('sha256').update(body).digest('hex'))
    return 'XAmzContentSHA256Mismatch'
  for (const name of ['host', 'x-amz-content-sha256', 'x-amz-date'])
    if (!verdict.signedHeaders.includes(name)) return 'AccessDenied'
  return verdict.ok ? null : 'SignatureDoesNotMatch'
}

const answer = (response: ServerResponse, status: number, code: string): void => {
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>m</Message></Error>`
  response.writeHead(status, { 'content-type': 'application/xml' }).end(body)
}
