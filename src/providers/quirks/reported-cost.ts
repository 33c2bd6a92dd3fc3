import type { Usage } from '../../core/chat.ts'
import { number, object } from '../../core/json.ts'

const NANO = 1e9

/**
 * The cost in `usage.cost`, in dollars. With the client's own key for the model's vendor (`is_byok`) it is the gateway's fee
 * alone, and the vendor's part is stated beside it (recording openrouter-chat-chat-completion-openrouter-byok-0d45a0e0).
 */
export const costInDollars = (usage: Usage): Usage => {
  const { raw } = usage
  const fee = number(raw?.cost)
  const inference = raw?.is_byok === true ? number(object(raw.cost_details)?.upstream_inference_cost) : 0
  return fee === undefined || inference === undefined ? usage : { ...usage, reportedCost: (fee + inference) * NANO }
}

/** The cost in `usage.cost.total_cost`, in dollars. In the middle of a stream it is 0, which is unknown. */
export const totalCostInDollars = (usage: Usage): Usage => {
  const total = number(object(usage.raw?.cost)?.total_cost)
  return total ? { ...usage, reportedCost: total * NANO } : usage
}
