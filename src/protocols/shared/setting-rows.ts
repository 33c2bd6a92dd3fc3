/** Rows of setting tables that several formats share. Each names the format's member. */
import type { GenerationSettings, Setting } from '../../core/chat.ts'
import type { Json } from '../../core/json.ts'
import type { EncodeTarget } from '../../core/protocol.ts'
import type { RequestDraft } from './request-draft.ts'

type Draft = Pick<RequestDraft, 'put' | 'losses'>

/** Encodes a setting unchanged. */
export const asMember =
  (member: string) =>
  ({ value, at }: Setting<Json>, { put }: Pick<Draft, 'put'>): void =>
    put(member, value, at)

/** Encodes a flag only if it is set. */
export const ifTrue =
  (member: string) =>
  ({ value, at }: Setting<boolean>, { put }: Draft): void => {
    if (value) put(member, true, at)
  }

/** Encodes a number within the range that the format accepts. Clamping is reported as a loss. */
export const clampSetting =
  (member: string, least: number, most: number) =>
  ({ value, at }: Setting<number>, { put, losses }: Draft): void => {
    const fitting = Math.min(most, Math.max(least, value))
    if (fitting !== value) losses.lose(at)
    put(member, fitting, at)
  }

/** Encodes the output limit: a whole number of at least 1, at most the model's limit if that is known. */
export const outputLimit =
  (member: string) =>
  ({ value, at }: Setting<number>, { target, put, losses }: Draft & { readonly target: EncodeTarget }): void => {
    const fitting = Math.max(1, Math.min(Math.floor(value), target.outputLimit ?? Number.POSITIVE_INFINITY))
    if (fitting !== value) losses.lose(at)
    put(member, fitting, at)
  }

/** Encodes at most `most` stop sequences. Further and empty ones are lost. */
export const stopSequences =
  (member: string, most: number) =>
  ({ value, at }: Setting<readonly string[]>, { put, losses }: Draft): void => {
    const sequences = value.filter((sequence) => sequence !== '').slice(0, most)
    if (sequences.length < value.length) losses.lose(at)
    if (sequences.length > 0) put(member, sequences, at)
  }

/** Encodes the number of alternatives for a token, at most 20; `flag` enables log probabilities. */
export const topLogprobs =
  (flag: string, member: string) =>
  ({ value, at }: Setting<number>, { put, losses }: Draft): void => {
    if (value <= 0) return
    if (value > 20) losses.lose(at)
    put(flag, true, at)
    put(member, Math.min(20, Math.floor(value)), at)
  }

/** Whether the client requests reasoning. An effort overrides a budget. */
export const wantsReasoning = ({ effort, thinkingBudget }: GenerationSettings): boolean =>
  effort ? effort.value !== 'none' : thinkingBudget !== undefined && thinkingBudget.value > 0

/** For formats that always return reasoning as text: a summary is lost only without reasoning. */
export const lostWithoutReasoning = (
  { at }: Setting<string>,
  { settings, losses }: Pick<Draft, 'losses'> & { readonly settings: GenerationSettings },
): void => {
  if (!wantsReasoning(settings)) losses.lose(at)
}
