import type { Citation } from '../../core/chat.ts'
import { isObject, type JsonObject } from '../../core/json.ts'

/** The sources that an answer cites, as `groundingMetadata`. Google counts bytes of UTF-8 in the whole text. */
export class CitedSources {
  readonly #chunks: JsonObject[] = []
  readonly #places = new Map<string, number>()
  readonly #supports: JsonObject[] = []
  /** Bytes of the texts before the open one. */
  #before = 0
  #text = ''
  #open: Citation[] = []

  /** More of the answer's text. */
  add(text: string): void {
    this.#text += text
  }

  /** A source of the open text. */
  cite(citation: Citation): void {
    this.#open.push(citation)
  }

  /** Ends a text. A source without a position supports all of it. */
  end(): void {
    for (const citation of this.#open) {
      const { start = 0, end = this.#text.length } = citation
      const place = this.#placeOf(citation)
      const text = this.#text.slice(start, end)
      if (text === '') continue
      const startIndex = this.#before + bytesIn(this.#text.slice(0, start))
      const segment = { startIndex, endIndex: startIndex + bytesIn(text), text }
      this.#supports.push({ segment, groundingChunkIndices: [place] })
    }
    if (this.#text !== '') this.#before += bytesIn(this.#text)
    this.#text = ''
    this.#open = []
  }

  /** Undefined: nothing is cited. */
  metadata(): JsonObject | undefined {
    if (this.#chunks.length === 0) return undefined
    return {
      groundingChunks: this.#chunks,
      ...(this.#supports.length > 0 && { groundingSupports: this.#supports }),
    }
  }

  #placeOf({ url, title, raw }: Citation): number {
    const known = this.#places.get(url)
    if (known !== undefined) return known
    const place = this.#chunks.length
    this.#chunks.push(isChunk(raw) ? raw : { web: { uri: url, ...(title && { title }) } })
    this.#places.set(url, place)
    return place
  }
}

const isChunk = (raw: unknown): raw is JsonObject =>
  isObject(raw) && ['web', 'retrievedContext', 'maps', 'image'].some((kind) => isObject(raw[kind]))

const bytesIn = (text: string): number => new TextEncoder().encode(text).length
