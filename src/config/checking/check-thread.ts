/** Checks texts in a thread, because a parser can need seconds for one. */
import { loadProviders } from '../catalogue/load-providers.ts'
import type { CheckTask } from './check-task.ts'
import { checkText } from './check-text.ts'

export const program = async (_: null) => {
  const providers = await loadProviders()
  return { methods: { check: (task: CheckTask) => checkText(task, providers) } }
}
