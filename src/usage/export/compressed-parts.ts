/** Divides lines among compressed objects. Memory holds what is compressed of one object, and zlib works in threads of its own. */
import { constants, createGzip } from 'node:zlib'

export type CompressedPart = { readonly body: Uint8Array; readonly rows: number }

/** `texts`: whole lines. Each part has exactly `most` lines but for the last, so that a retry makes the same parts. */
export async function* compressedParts(texts: AsyncIterable<string>, most: number): AsyncGenerator<CompressedPart> {
  let part = new GzipText()
  let rows = 0
  try {
    for await (const text of texts) {
      let from = 0
      for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', end + 1)) {
        if (++rows < most) continue
        await part.write(text.slice(from, end + 1))
        yield { body: await part.end(), rows }
        part.close()
        part = new GzipText()
        rows = 0
        from = end + 1
      }
      await part.write(text.slice(from))
    }
    if (rows > 0) yield { body: await part.end(), rows }
  } finally {
    part.close()
  }
}

/** Lines in a text of whole lines. JSON has no line feed within a line. */
export const linesIn = (text: string): number => {
  let lines = 0
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) lines++
  return lines
}

class GzipText {
  readonly #stream = createGzip({ level: constants.Z_BEST_SPEED })
  readonly #chunks: Buffer[] = []

  constructor() {
    this.#stream.on('data', (chunk: Buffer) => this.#chunks.push(chunk))
  }

  write(text: string): Promise<void> {
    return new Promise((resolve, reject) => this.#stream.write(text, (error) => (error ? reject(error) : resolve())))
  }

  async end(): Promise<Uint8Array> {
    await new Promise((resolve) => this.#stream.once('end', resolve).end())
    return Buffer.concat(this.#chunks)
  }

  /** Frees what zlib holds, also of a text without its end. */
  close(): void {
    this.#stream.destroy()
  }
}
