import type { EmbeddingsRequest } from '../../core/embeddings.ts'
import type { Losses } from '../shared/losses.ts'

/**
 * The inputs of a request as texts, for formats that accept text only. Token inputs are unfit, because they belong to another
 * model's tokenizer. `user` and unknown members are dropped.
 */
export const inputTexts = ({ inputs, user, extras }: EmbeddingsRequest, losses: Losses): readonly string[] => {
  for (const extra of extras) losses.loseExtra(extra)
  if (user) losses.lose(user.at)
  return inputs.map((input) => {
    if ('text' in input) return input.text
    losses.unfit(input.at)
    return ''
  })
}
