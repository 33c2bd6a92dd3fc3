/**
 * An independent verifier for AWS Signature Version 4, written from its description
 * (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html) and not from the signing
 * code.
 */
import { createHash, createHmac } from 'node:crypto'

export type Signed = {
  readonly method: string
  /** The request target as on the request line, including the query. */
  readonly target: string
  /** Header names in lower case. */
  readonly headers: { readonly [name: string]: string | readonly string[] | undefined }
  readonly body: string | Uint8Array
}

const sha256 = (text: string | Uint8Array) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** Keeps unreserved characters and encodes every other byte as %XX. */
const encoded = (text: string): string =>
  [...Buffer.from(text)]
    .map((byte) => {
      const char = String.fromCharCode(byte)
      return /[A-Za-z0-9._~-]/.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    })
    .join('')

/** Every service except S3 encodes each segment of the sent path a second time. S3 decodes it first. */
const canonicalPath = (path: string, service: string): string =>
  path
    .split('/')
    .map((part) => encoded(service === 's3' ? decodeURIComponent(part) : part))
    .join('/')

const canonicalQuery = (query: string): string =>
  query === ''
    ? ''
    : query
        .split('&')
        .map((pair) => {
          const [name = '', value = ''] = pair.split('=')
          return `${encoded(decodeURIComponent(name))}=${encoded(decodeURIComponent(value))}`
        })
        .sort()
        .join('&')

const FORM =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([0-9]{8})\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/

export type Verdict = {
  readonly ok: boolean
  readonly accessKeyId: string
  readonly region: string
  readonly service: string
  readonly signedHeaders: readonly string[]
  readonly signature: string
}

/** Checks whether a request was signed with this secret. Null: it is unsigned. */
export const verify = ({ method, target, headers, body }: Signed, secret: string): Verdict | null => {
  const [, accessKeyId = '', day = '', region = '', service = '', names = '', signature = ''] =
    FORM.exec(String(headers.authorization ?? '')) ?? []
  if (signature === '') return null
  const [path = '', query = ''] = target.split('?')
  const signedHeaders = names.split(';')
  const canonical = [
    method,
    canonicalPath(path, service),
    canonicalQuery(query),
    ...signedHeaders.map(
      (name) =>
        `${name}:${String(headers[name] ?? '')
          .trim()
          .replaceAll(/ +/g, ' ')}`,
    ),
    '',
    names,
    sha256(body),
  ].join('\n')
  const toSign = [
    'AWS4-HMAC-SHA256',
    String(headers['x-amz-date']),
    `${day}/${region}/${service}/aws4_request`,
    sha256(canonical),
  ].join('\n')
  const key = [day, region, service, 'aws4_request'].reduce<Buffer | string>(hmac, `AWS4${secret}`)
  const expected = createHmac('sha256', key).update(toSign).digest('hex')
  return { ok: expected === signature, accessKeyId, region, service, signedHeaders, signature }
}
