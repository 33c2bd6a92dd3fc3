import { type JsonObject, number, parseObject } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import { singleFrames, writeFrame } from '../framing/sse.ts'

/**
 * Makes the blocks of a passed stream follow each other: numbered from 0 without a gap, each closed before the next begins.
 * Clients look blocks up by number, and end the answer with "Content block not found" otherwise. Servers that number wrong:
 * ollama/ollama#17101, ollama/ollama#14816, jundot/omlx#1353, QuantumNous/new-api#5482, anthropics/anthropic-sdk-typescript#879.
 */
export class BlockOrder {
  #next = 0
  /** The open block: its number as the server and as the client has it. */
  #open: { readonly sent: number; readonly index: number } | null = null

  /** The events for the client in place of a frame; null: the frame itself. */
  replace(type: string | undefined, frame: Frame): readonly string[] | null {
    switch (type) {
      case 'content_block_start':
        return this.#start(frame)
      case 'content_block_delta':
        return this.#open && this.#open.sent !== this.#open.index ? singleFrames(frame).map(this.#moved) : null
      case 'content_block_stop':
        return this.#stop(frame)
      case 'message_delta':
      case 'message_stop': {
        const closed = this.#close()
        return closed.length > 0 ? [...closed, ...singleFrames(frame).map(({ data }) => writeFrame(type, data))] : null
      }
      default:
        return null
    }
  }

  #start(frame: Frame): readonly string[] | null {
    const event = parseObject(frame.data)
    const sent = number(event?.index)
    if (!event || sent === undefined) return null
    const closed = this.#close()
    const index = this.#next++
    this.#open = { sent, index }
    return sent === index && closed.length === 0 ? null : [...closed, written({ ...event, index })]
  }

  /** A second end of a block is dropped. */
  #stop(frame: Frame): readonly string[] | null {
    const event = parseObject(frame.data)
    const sent = number(event?.index)
    if (!event || sent === undefined) return null
    const open = this.#open
    if (open?.sent !== sent) return []
    this.#open = null
    return open.index === sent ? null : [written({ ...event, index: open.index })]
  }

  readonly #moved = ({ data }: Frame): string => {
    const event = parseObject(data)
    const open = this.#open
    return event && open && event.index === open.sent
      ? written({ ...event, index: open.index })
      : writeFrame('content_block_delta', data)
  }

  #close(): readonly string[] {
    const open = this.#open
    this.#open = null
    return open ? [written({ type: 'content_block_stop', index: open.index })] : []
  }
}

const written = (event: JsonObject): string => writeFrame(String(event.type), JSON.stringify(event))
