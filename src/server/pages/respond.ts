/** Responses with pages: security headers, caching, encodings. */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { HeaderLookup } from '../../core/headers.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'

const OFF = [
  'accelerometer',
  'autoplay',
  'camera',
  'clipboard-read',
  'display-capture',
  'encrypted-media',
  'fullscreen',
  'geolocation',
  'gyroscope',
  'hid',
  'idle-detection',
  'local-fonts',
  'magnetometer',
  'microphone',
  'midi',
  'payment',
  'picture-in-picture',
  'publickey-credentials-get',
  'screen-wake-lock',
  'serial',
  'storage-access',
  'usb',
  'xr-spatial-tracking',
]

/** The headers of every response. `directives`: what the content security policy allows. */
export const pageHeaders = (directives: readonly string[]) => ({
  'content-security-policy': [
    "default-src 'none'",
    ...directives,
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': [...OFF.map((name) => `${name}=()`), 'clipboard-write=(self)'].join(', '),
})

type PageHeaders = ReturnType<typeof pageHeaders>

/** Best first. Compressed once, when a client first accepts it: the files are small, and the pool of threads does it. */
const ENCODERS = {
  br: (content: Buffer) => promisify(brotliCompress)(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
  gzip: (content: Buffer) => promisify(gzip)(content, { level: 9 }),
} as const

type ContentEncoding = keyof typeof ENCODERS

/** One file. */
export type PageFile = {
  readonly type: string
  readonly etag: string
  readonly plain: Buffer
  /** The compressed forms that were sent before. */
  readonly compressed: Map<ContentEncoding, Promise<Buffer>>
}

/** The files that are served, by name. */
export const pageFiles = (contents: Iterable<readonly [string, Buffer | string]>): ReadonlyMap<string, PageFile> => {
  const files = new Map<string, PageFile>()
  for (const [name, content] of contents) {
    const type = typeOf(name)
    if (type === undefined) continue
    const plain = Buffer.from(content)
    const etag = `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`
    files.set(name, { type, etag, plain, compressed: new Map() })
  }
  return files
}

/** The content in an encoding. */
const encoded = ({ plain, compressed }: PageFile, encoding: ContentEncoding): Promise<Buffer> => {
  const known = compressed.get(encoding)
  if (known) return known
  const made = ENCODERS[encoding](plain)
  compressed.set(encoding, made)
  return made
}

const TYPES: { readonly [extension: string]: string } = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.md': 'text/plain; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
}

/** The content type of a file; undefined: such files are not served. */
export const typeOf = (name: string): string | undefined => TYPES[/\.\w+$/.exec(name)?.[0] ?? '']

export const HTML = TYPES['.html'] ?? ''

/** Sends the headers and a text. */
export const respond = (
  reply: ResponseWriter,
  status: number,
  headers: Readonly<Record<string, string>>,
  text: string,
): void => {
  reply.writeHead(status, headers)
  reply.end(text)
}

type Sent = {
  readonly method: string
  readonly headers: HeaderLookup
  readonly common: PageHeaders
  /** The name of the file changes with its content. */
  readonly immutable: boolean
}

export const sendFile = async (reply: ResponseWriter, file: PageFile, sent: Sent): Promise<void> => {
  const { method, headers, common, immutable } = sent
  const all = {
    ...common,
    etag: file.etag,
    'cache-control': immutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    vary: 'accept-encoding',
  }
  const known = headers('if-none-match')
    ?.replaceAll('W/', '')
    .split(',')
    .map((part) => part.trim())
  if (known?.includes(file.etag)) {
    reply.writeHead(304, all)
    return reply.end()
  }
  const encoding = encodingOf(file, headers('accept-encoding') ?? '')
  const content = encoding ? await encoded(file, encoding) : file.plain
  reply.writeHead(200, { ...all, 'content-type': file.type, ...(encoding && { 'content-encoding': encoding }) })
  if (method !== 'HEAD') reply.write(content)
  reply.end()
}

const ENCODINGS: readonly ContentEncoding[] = ['br', 'gzip']

/** The best encoding that the client accepts; undefined: none, or a picture, which is compressed already. */
const encodingOf = ({ type }: PageFile, accepted: string): ContentEncoding | undefined => {
  if (type === TYPES['.png']) return undefined
  const names = accepted.split(',').flatMap((part) => {
    const [name = '', ...parameters] = part.split(';').map((word) => word.trim().toLowerCase())
    return parameters.some((word) => /^q=0(?:\.0*)?$/.test(word)) ? [] : [name]
  })
  return ENCODINGS.find((name) => names.includes(name))
}
