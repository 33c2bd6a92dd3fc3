/** A `.tar.gz` of regular files (ustar, POSIX.1-1988), written and read as streams, so that size is not limited by memory. */
import { createReadStream, createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'

/** A file of an archive: its name there, and where its content is. */
export type ArchiveFile = { readonly name: string; readonly path: string; readonly bytes: number }

const BLOCK = 512
/** The largest size that fits the octal field; larger ones use GNU's binary form. */
const MAX_OCTAL = 8 ** 11 - 1

const header = (name: string, bytes: number): Buffer => {
  const block = Buffer.alloc(BLOCK)
  block.write(name, 0, 100, 'ascii')
  block.write('0000600\0', 100, 'ascii')
  block.write('0000000\0', 108, 'ascii')
  block.write('0000000\0', 116, 'ascii')
  if (bytes <= MAX_OCTAL) block.write(`${bytes.toString(8).padStart(11, '0')}\0`, 124, 'ascii')
  else {
    block[124] = 0x80
    block.writeBigUInt64BE(BigInt(bytes), 128)
  }
  block.write('00000000000\0', 136, 'ascii')
  block.write('        0', 148, 'ascii')
  block.write('ustar\u000000', 257, 'ascii')
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'ascii')
  return block
}

const padding = (bytes: number): Buffer => Buffer.alloc((BLOCK - (bytes % BLOCK)) % BLOCK)

async function* blocksOf(files: readonly ArchiveFile[]): AsyncGenerator<Buffer> {
  for (const { name, path, bytes } of files) {
    yield header(name, bytes)
    // A journal may grow meanwhile: only the stated part is read.
    if (bytes > 0) yield* createReadStream(path, { end: bytes - 1 })
    yield padding(bytes)
  }
  yield Buffer.alloc(2 * BLOCK)
}

/** Writes an archive, readable by its owner only. Fails if the file exists. */
export const writeArchive = async (file: string, files: readonly ArchiveFile[]): Promise<void> =>
  await pipeline(blocksOf(files), createGzip(), createWriteStream(file, { mode: 0o600, flags: 'wx' }))

/** A file inside an archive, while it is read. `content` must be read to its end. */
export type ArchiveEntry = { readonly name: string; readonly bytes: number; readonly content: AsyncIterable<Buffer> }

/** Thrown for a file that is not such an archive. */
export class ArchiveError extends Error {}

/** Reads from chunks of any size. */
class ByteReader {
  readonly #source: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterator<Buffer>) {
    this.#source = source
  }

  /** At most this many bytes; empty at the end. */
  async some(most: number): Promise<Buffer> {
    if (this.#rest.length === 0) {
      const next = await this.#source.next()
      if (next.done) return this.#rest
      this.#rest = next.value
    }
    const part = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(part.length)
    return part
  }

  async exactly(count: number): Promise<Buffer> {
    const parts: Buffer[] = []
    for (let missing = count; missing > 0; ) {
      const part = await this.some(missing)
      if (part.length === 0) throw new ArchiveError('the file ends too early')
      parts.push(part)
      missing -= part.length
    }
    return Buffer.concat(parts)
  }

  async *stream(count: number): AsyncGenerator<Buffer> {
    for (let missing = count; missing > 0; ) {
      const part = await this.some(missing)
      if (part.length === 0) throw new ArchiveError('the file ends too early')
      missing -= part.length
      yield part
    }
  }
}

const sizeIn = (block: Buffer): number => {
  if (((block[124] ?? 0) & 0x80) !== 0) return Number(block.readBigUInt64BE(128))
  const octal = block.toString('ascii', 124, 135)
  if (!/^[0-7]{11}$/.test(octal)) throw new ArchiveError('it has an invalid header')
  return Number.parseInt(octal, 8)
}

/** Reads an archive, file by file. Throws `ArchiveError`, or the error of zlib. */
export async function* readArchive(file: string): AsyncGenerator<ArchiveEntry> {
  const unzipped = createReadStream(file).on('error', (error) => unzip.destroy(error))
  const unzip = createGunzip()
  unzipped.pipe(unzip)
  const reader = new ByteReader(unzip[Symbol.asyncIterator]())
  for (;;) {
    const block = await reader.exactly(BLOCK)
    if (block.every((byte) => byte === 0)) return
    const bytes = sizeIn(block)
    const name = block.toString('ascii', 0, 100).replace(/\0.*$/s, '')
    yield { name, bytes, content: reader.stream(bytes) }
    await reader.exactly(padding(bytes).length)
  }
}
