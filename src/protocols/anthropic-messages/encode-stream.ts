import type { Block, ChatEvent, Citation, Finish, ReasoningSignature, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { Json } from '../../core/json.ts'
import type { AnswerContext, StreamWriter } from '../../core/protocol.ts'
import { writeFrame } from '../framing/sse.ts'
import { isTranscript, reportLost } from '../shared/output-media.ts'
import { FREE_INPUT } from '../shared/tool-arguments.ts'
import { encodeCitation } from './citations.ts'
import { messageHead } from './encode-answer.ts'
import { errorEvent } from './errors.ts'
import { encodeFinish, encodeUsage } from './finish-and-usage.ts'
import { toolUseId } from './ids.ts'
import { sign } from './signatures.ts'

/** What a block on the wire takes as its deltas. */
type Open = 'text' | 'thinking' | 'call' | 'custom' | 'whole'

export const KEEP_ALIVE_COMMENT = ': ping\n\n'
export const PING = 'event: ping\ndata: {"type": "ping"}\n\n'

/** Writes a stream of this format from the events alone. Events have names: the official SDKs skip one without. */
export const encodeStream = (context: AnswerContext): StreamWriter => {
  let started = false
  /** Nothing more may follow. */
  let over = false
  let index = -1
  /** Opened in the middle, not yet on the wire: an empty block is never sent. */
  let waiting: Block | undefined
  /** The text of the open thinking block is a summary. */
  let summary = false
  let open: Open | undefined
  let calledTools = false
  /** The model has refused. The words go out as text, and the end says what they are. */
  let refused = false
  let usage: Usage | undefined
  let finish: Finish | undefined

  const send = (type: string, members: { readonly [member: string]: Json }): string =>
    writeFrame(type, JSON.stringify({ type, ...members }))

  const start = (head: { readonly id?: string; readonly model?: string } = {}): string[] => {
    if (started) return []
    started = true
    const message = {
      ...messageHead(head, context),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: encodeUsage(usage),
    }
    return [send('message_start', { message })]
  }

  const begin = (kind: Open, content_block: Json): string[] => {
    index++
    open = kind
    waiting = undefined
    return [...start(), send('content_block_start', { index, content_block })]
  }

  const grow = (delta: Json): string => send('content_block_delta', { index, delta })

  /** Puts the waiting block of this kind on the wire, if it is not there yet. */
  const ensure = (kind: 'text' | 'thinking'): string[] =>
    open === kind
      ? []
      : begin(kind, kind === 'text' ? { type: 'text', text: '' } : { type: 'thinking', thinking: '', signature: '' })

  const opened = (block: Block): string[] => {
    const before = closed()
    refused ||= block.type === 'refusal'
    switch (block.type) {
      case 'text':
      case 'refusal':
      case 'reasoning':
        waiting = block
        summary = block.type === 'reasoning' && block.summary === true
        return before
      case 'tool-call': {
        calledTools = true
        const call = { type: 'tool_use', id: toolUseId(block.id), name: block.name, input: {} }
        const begun = begin(block.custom ? 'custom' : 'call', call)
        return [...before, ...begun, ...(block.custom ? [partial(`{${JSON.stringify(FREE_INPUT)}:"`)] : [])]
      }
      case 'foreign':
        if (block.protocol === 'anthropic-messages') return [...before, ...begin('whole', block.raw)]
        reportLost(block, context)
        // Of sound the words that were spoken can be carried.
        if (isTranscript(block)) waiting = { type: 'text' }
        return before
      default:
        throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
    }
  }

  const partial = (partial_json: string): string => grow({ type: 'input_json_delta', partial_json })

  const added = (text: string): string[] => {
    if (text === '') return []
    if (open === 'call') return [partial(text)]
    // A piece of a JSON string: what stands between its quotes.
    if (open === 'custom') return [partial(JSON.stringify(text).slice(1, -1))]
    if (open === 'thinking' || waiting?.type === 'reasoning')
      return [...ensure('thinking'), grow({ type: 'thinking_delta', thinking: text })]
    if (open !== 'text' && !waiting) return []
    return [...ensure('text'), grow({ type: 'text_delta', text })]
  }

  const cited = (citation: Citation): string[] =>
    open === 'text' || waiting?.type === 'text'
      ? encodeCitation(citation).flatMap((told) => [
          ...ensure('text'),
          grow({ type: 'citations_delta', citation: told }),
        ])
      : []

  const proven = (proof: ReasoningSignature): string[] => {
    if (open !== 'thinking' && waiting?.type !== 'reasoning') return []
    if (open !== 'thinking' && proof.redacted && proof.origin === 'anthropic-messages')
      return begin('whole', { type: 'redacted_thinking', data: proof.value })
    return [...ensure('thinking'), grow({ type: 'signature_delta', signature: sign(proof, summary) })]
  }

  const closed = (): string[] => {
    waiting = undefined
    const kind = open
    open = undefined
    if (!kind) return []
    return [...(kind === 'custom' ? [partial('"}')] : []), send('content_block_stop', { index })]
  }

  const broke = (failure: Failure): string[] => {
    over = true
    return [writeFrame('error', JSON.stringify(errorEvent(failure, context.requestId)))]
  }

  const write = (event: ChatEvent): string[] => {
    switch (event.type) {
      case 'start':
        return start(event)
      case 'open':
        return opened(event.block)
      case 'delta':
        return added(event.text)
      case 'citation':
        return cited(event.citation)
      case 'proof':
        return proven(event.proof)
      case 'close':
        return closed()
      case 'usage':
        usage = event.usage
        return []
      case 'finish':
        finish = event.finish
        return closed()
      case 'failure':
        return broke(event.failure)
      case 'ping':
        return started ? [PING] : []
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  return {
    push({ events }) {
      const out: string[] = []
      for (const event of events) if (!over) out.push(...write(event))
      return out
    },
    end() {
      if (over || !finish) return []
      if (finish.kind === 'error' || finish.kind === 'malformed')
        return broke(fail('error_in_stream', 'The model broke off its answer.'))
      over = true
      const ending = refused && finish.kind === 'stop' ? { ...finish, kind: 'refusal' as const } : finish
      // Usage may come after the reason, so both wait for the end.
      return [
        ...start(),
        send('message_delta', {
          delta: encodeFinish(ending, calledTools),
          usage: encodeUsage(usage),
        }),
        send('message_stop', {}),
      ]
    },
    keepAlive: () => (over ? '' : started ? PING : KEEP_ALIVE_COMMENT),
  }
}
