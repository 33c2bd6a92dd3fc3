/** The loop brake: states in the answer that an agent repeats itself, or stops it. */
import type { ChatRequest } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { type FoundLoop, strictest } from '../../core/loops.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import { type Glob, matchesGlob, parseGlob } from '../../policy/accounts/glob.ts'
import { agentTurns } from '../../policy/sessions/agent-turns.ts'
import { findLoop } from '../../policy/sessions/find-loop.ts'
import { printable, type Recorder } from '../call/recorder.ts'

/** A call whose history is known. `size`: characters of its body. */
type BrakedCall = {
  readonly received: Pick<IncomingRequest, 'client'>
  readonly config: Config
  readonly request: ChatRequest
  readonly size: number
  readonly recorder: Recorder
}

/** Why the call is refused; null: it is not. A request without a session that it names is never refused. */
export const loopBrake = (
  { emit }: { readonly emit: (event: GatewayEvent) => void },
  { received: { client }, config, request, size, recorder }: BrakedCall,
): Failure | null => {
  const { loops } = config.settings
  const action = strictest(loops.action, client.loops)
  if (action === 'off') return null
  const found = findLoop(agentTurns(request), { size, isPolling: (tool) => isPolling(loops.polling, tool) })
  if (!found) return null
  recorder.addHeaders({ 'x-headgate-loop': headerOf(found) })
  const { id, account } = recorder
  const isStopped = action === 'block' && found.level === 'loop' && account.session !== null
  const { name: team } = client.team
  emit({
    event: 'loop',
    id,
    ...(client.id !== '' && { client: client.id }),
    team,
    session: account.session,
    found,
    action,
    isStopped,
  })
  return isStopped ? fail('loop_stopped', messageOf(found)) : null
}

const headerOf = ({ level, detector, tool, times }: FoundLoop): string =>
  `${level}; ${detector}=${printable(tool.slice(0, MAX_TOOL)).replace(/[;=\s]/g, '_') || '-'}; times=${times}`

/** Characters of the name of a tool. */
const MAX_TOOL = 64

const REPEATED: { readonly [detector in FoundLoop['detector']]: (tool: string) => string } = {
  repeat: (tool) => `repeats the call \`${tool}\` with the same result`,
  cycle: (tool) => `repeats the same calls in turn, such as \`${tool}\`, with the same results`,
  'same-error': (tool) => `receives the same error again and again, from \`${tool}\``,
  'no-news': (tool) => `has had no new result for many calls, such as \`${tool}\``,
  say: () => 'says the same again and again without a call of a tool',
}

const messageOf = ({ detector, tool }: FoundLoop): string =>
  `This session ${REPEATED[detector](tool.slice(0, MAX_TOOL).replace(/[^\x21-\x7e]/g, '?'))} and was stopped. Say what to do differently to go on.`

const isPolling = (polling: readonly string[], tool: string): boolean => {
  const name = tool.toLowerCase()
  return globsOf(polling).some((glob) => matchesGlob(glob, name))
}

const globsOf = memoizeBy((polling: readonly string[]): readonly Glob[] => polling.map(parseGlob))
