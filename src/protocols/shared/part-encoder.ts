import type { Message, Part } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import { type Losses, loseExtras } from './losses.ts'

type PartType = Part['type']

export type PartOf<Type extends PartType> = Part & { readonly type: Type }

type LossContext = Losses | { readonly losses: Losses }

/** One encoder per type of part that a format supports in a place: in user messages, for example. */
export type PartEncoders<Context> = {
  readonly [Type in PartType]?: (part: PartOf<Type>, context: Context) => readonly JsonObject[]
}

/**
 * An encoder of parts by type. A part without an encoder is a loss: reasoning can be dropped, any other part is essential
 * to the message.
 */
export const partEncoder = <Context extends LossContext>(encoders: PartEncoders<Context>) => {
  const encode = <Type extends PartType>(type: Type, part: PartOf<Type>, context: Context): readonly JsonObject[] => {
    const encoder: PartEncoders<Context>[Type] = encoders[type]
    if (encoder) return encoder(part, context)
    const losses = lossesOf(context)
    if (part.type === 'reasoning') losses.lose(part.at)
    else losses.unfit(part.at)
    return []
  }
  return (part: Part, context: Context): readonly JsonObject[] => encode(part.type, part, context)
}

/** An encoder of foreign parts: those of the format itself pass unchanged, others do not fit. */
export const foreignEncoder =
  (protocol: PartOf<'foreign'>['protocol']) =>
  (part: PartOf<'foreign'>, context: LossContext): readonly JsonObject[] => {
    if (part.protocol === protocol) return [part.raw]
    lossesOf(context).unfit(part.at)
    return []
  }

/** Encodes a system message for formats whose system prompt has text only. */
export const encodeSystemParts = (
  message: Message,
  encodeText: (part: PartOf<'text'>, losses: Losses) => readonly JsonObject[],
  losses: Losses,
): JsonObject[] => {
  loseExtras(message.extras, losses)
  return message.content.flatMap((part) => {
    if (part.type === 'text') return encodeText(part, losses)
    losses.unfit(part.at)
    return []
  })
}

const lossesOf = (context: LossContext): Losses => ('losses' in context ? context.losses : context)
