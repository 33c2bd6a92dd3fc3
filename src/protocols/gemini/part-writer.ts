/** Writes the events of an answer as parts of a candidate, for whole answers and for streams. */
import type { Block, ChatEvent, Finish, Reasoning } from '../../core/chat.ts'
import { type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { hasUrl } from '../shared/openai-finish-and-usage.ts'
import { type ForeignBlock, isTranscript, reportLost, reportLostCitation } from '../shared/output-media.ts'
import { issuedSignature } from '../shared/reasoning-members.ts'
import { REFUSAL_TEXT } from '../shared/refusal-text.ts'
import { SpokenWords } from '../shared/spoken-words.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { CitedSources } from './cited-sources.ts'
import { encodeFinish } from './finish-and-usage.ts'
import { encodeThoughtSignature } from './packed-signature.ts'

const NO_PARTS: readonly JsonObject[] = []

export class GeminiPartWriter {
  readonly #context: AnswerContext
  readonly #showsThoughts: boolean
  readonly #words = new SpokenWords()
  readonly #sources = new CitedSources()
  readonly #logprobs: Json[] = []
  #block: Block | undefined
  /** The text of the open block, where it is written at the block's end. */
  #held = ''
  #signature: Reasoning['signature']
  /** The signature for the next call or text. */
  #pending: string | undefined
  #refusal = ''
  #hasParts = false

  constructor(context: AnswerContext) {
    this.#context = context
    this.#showsThoughts = context.request.settings.reasoningSummary !== undefined
  }

  /** Some part was written. */
  get hasParts(): boolean {
    return this.#hasParts
  }

  write(event: ChatEvent): readonly JsonObject[] {
    const parts = this.#partsOf(event)
    if (parts.length > 0) this.#hasParts = true
    return parts
  }

  /** The last parts: a signature after which nothing follows. */
  end(): readonly JsonObject[] {
    const parts = [...this.#close(), ...this.#flush()]
    if (parts.length > 0) this.#hasParts = true
    return parts
  }

  /** The members of a finished candidate beside its parts. */
  ending(finish: Finish): JsonObject {
    const refused = this.#refusal || (finish.kind === 'refusal' ? REFUSAL_TEXT : '')
    const groundingMetadata = this.#sources.metadata()
    return {
      ...encodeFinish(finish, refused),
      ...(groundingMetadata && { groundingMetadata }),
      ...(this.#logprobs.length > 0 && encodeLogprobs(this.#logprobs)),
    }
  }

  #partsOf(event: ChatEvent): readonly JsonObject[] {
    switch (event.type) {
      case 'open':
        return [...this.#close(), ...this.#open(event.block)]
      case 'delta':
        for (const token of list(event.logprobs)) this.#logprobs.push(token)
        return event.text === '' ? NO_PARTS : this.#add(event.text)
      case 'citation':
        if (hasUrl(event.citation)) this.#sources.cite(event.citation)
        else reportLostCitation(this.#context)
        return NO_PARTS
      case 'signature':
        this.#signature = issuedSignature(event.signature, this.#context)
        return NO_PARTS
      case 'close':
        return this.#close()
      case 'start':
      case 'usage':
      case 'finish':
      case 'failure':
      case 'ping':
        return NO_PARTS
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  #open(block: Block): readonly JsonObject[] {
    this.#block = block
    this.#held = ''
    this.#signature = undefined
    if (block.type !== 'foreign') return NO_PARTS
    if (block.protocol === 'gemini') return [block.raw]
    const images = imageParts(block)
    reportLost(block, this.#context, images.length)
    return images
  }

  #add(added: string): readonly JsonObject[] {
    const block = this.#block
    switch (block?.type) {
      case undefined:
        return NO_PARTS
      case 'text':
        return this.#addWords(this.#words.text(added))
      case 'refusal':
        this.#refusal += added
        return this.#addWords(added)
      case 'foreign':
        return isTranscript(block) ? this.#addWords(this.#words.transcript(added)) : NO_PARTS
      case 'tool-call':
        this.#held += added
        return NO_PARTS
      case 'reasoning':
        this.#held += added
        return this.#showsThoughts ? [{ text: added, thought: true }] : NO_PARTS
      default:
        throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
    }
  }

  #addWords(words: string): readonly JsonObject[] {
    if (words === '') return NO_PARTS
    this.#sources.add(words)
    return [this.#signed({ text: words })]
  }

  #close(): readonly JsonObject[] {
    const block = this.#block
    this.#block = undefined
    this.#sources.end()
    if (block?.type === 'tool-call') {
      const args = block.custom ? wrapInput(this.#held) : parseArguments(this.#held)
      return [this.#signed({ functionCall: { id: block.id, name: block.name, args } })]
    }
    if (block?.type !== 'reasoning' || !this.#signature) return NO_PARTS
    // Two signatures in a row: the first one belongs to the text before it, or to a thought of its own.
    const before = this.#flush()
    const summary = block.summary === true
    this.#pending = encodeThoughtSignature({ text: this.#held, summary, signature: this.#signature })
    return before
  }

  #signed(part: JsonObject): JsonObject {
    const signature = this.#pending
    this.#pending = undefined
    return signature === undefined ? part : { ...part, thoughtSignature: signature }
  }

  #flush(): readonly JsonObject[] {
    return this.#pending === undefined ? NO_PARTS : [this.#signed({ text: '' })]
  }
}

/** Images as parts. An image behind a URL is a part with that address. */
const imageParts = ({ output }: ForeignBlock): JsonObject[] =>
  (output?.images ?? []).flatMap((source): JsonObject[] => {
    if (source.kind === 'data') return [{ inlineData: { mimeType: source.mediaType, data: source.data } }]
    return source.kind === 'url' ? [{ fileData: { fileUri: source.url } }] : []
  })

/** Tokens with their probabilities, which are written as in chat completions. */
const encodeLogprobs = (tokens: readonly Json[]): JsonObject => {
  const chosen = tokens.flatMap(candidateOf)
  const total = chosen.reduce((sum, { logProbability }) => sum + logProbability, 0)
  const topCandidates = tokens.map((token) => ({ candidates: list(object(token)?.top_logprobs).flatMap(candidateOf) }))
  return {
    ...(chosen.length > 0 && { avgLogprobs: total / chosen.length }),
    logprobsResult: { chosenCandidates: chosen, topCandidates },
  }
}

const candidateOf = (raw: Json): { readonly token: string; readonly logProbability: number }[] => {
  const value = object(raw)
  const token = text(value?.token)
  const logProbability = number(value?.logprob)
  return token === undefined || logProbability === undefined ? [] : [{ token, logProbability }]
}
