/** Tool calls and results in the order that formats require: each result right after the turn of its call, none without one. */
import type { ChatRequest, Message, Part } from '../../core/chat.ts'
import type { Loss } from '../../core/protocol.ts'

type ToolMessage = Message & { readonly role: 'tool' }

/** Calls without a result: how many have an ID. Some models use one ID for several calls. */
type OpenCalls = Map<string, number>

/** A message that is not a result. `results`: those of its calls. */
type PairedTurn = { readonly message: Message; readonly results: ToolMessage[]; readonly open: OpenCalls }

/**
 * The request with each result after the turn of its call. A call that has no result, as after a crash or a compaction of
 * the history, receives one that says so. A result without its call becomes text of the user. Vendors refuse both, and as
 * clients repeat their history, the conversation would end there.
 */
export const withPairedCalls = (
  request: ChatRequest,
): { readonly request: ChatRequest; readonly losses: readonly Loss[] } => {
  if (arePaired(request.messages)) return { request, losses: [] }
  const losses: Loss[] = []
  const entries = entriesOf(request.messages, losses)
  const messages = entries.flatMap(({ message, results, open }, index) => {
    // The calls of the last turn are not answered yet.
    if (open.size === 0 || (results.length === 0 && index === entries.length - 1)) return [message, ...results]
    losses.push({ path: message.at, essential: false })
    return [message, ...results, ...[...open.keys()].map((callId) => missingResult(message.at, callId))]
  })
  return { request: { ...request, messages }, losses }
}

/** Of messages without calls; nothing is added to it. */
const NO_CALLS: OpenCalls = new Map()

const callsIn = ({ role, content }: Message): OpenCalls => {
  let open = NO_CALLS
  if (role !== 'assistant') return open
  for (const part of content) {
    if (part.type !== 'tool-call') continue
    if (open === NO_CALLS) open = new Map()
    open.set(part.id, (open.get(part.id) ?? 0) + 1)
  }
  return open
}

/** Takes the call of a result; false: there is none. */
const answer = (open: OpenCalls, callId: string): boolean => {
  const calls = open.get(callId)
  if (calls === undefined) return false
  if (calls > 1) open.set(callId, calls - 1)
  else open.delete(callId)
  return true
}

/** Whether nothing has to change. */
const arePaired = (messages: readonly Message[]): boolean => {
  let open = NO_CALLS
  for (const message of messages)
    if (message.role === 'tool') {
      if (!answer(open, message.callId)) return false
    } else {
      if (open.size > 0) return false
      open = callsIn(message)
    }
  return open.size === 0 || messages.at(-1)?.role === 'assistant'
}

const entriesOf = (messages: readonly Message[], losses: Loss[]): PairedTurn[] => {
  const entries: PairedTurn[] = []
  /** By the ID of a call without a result. Some models use the same IDs in each turn: the latest call counts. */
  const callers = new Map<string, PairedTurn>()
  for (const message of messages) {
    if (message.role !== 'tool') {
      const entry = { message, results: [], open: callsIn(message) }
      entries.push(entry)
      for (const id of entry.open.keys()) callers.set(id, entry)
      continue
    }
    const caller = callers.get(message.callId)
    if (caller && answer(caller.open, message.callId)) {
      caller.results.push(message)
      continue
    }
    losses.push({ path: message.at, essential: false })
    entries.push({ message: asText(message), results: [], open: NO_CALLS })
  }
  return entries
}

const asText = ({ at, content }: ToolMessage): Message => {
  const title: Part = { type: 'text', at, text: 'Result of a tool call that is not part of this conversation:' }
  return { role: 'user', at, content: [title, ...content] }
}

const missingResult = (at: string, callId: string): ToolMessage => ({
  role: 'tool',
  at,
  callId,
  isError: true,
  content: [{ type: 'text', at, text: 'The call has no result: it was not completed, or its result was removed.' }],
})
