/** Where a conversation is cached. */

/** The blocks of a message: whether each may be the end of a cached prefix. */
export type MarkableMessage = { readonly isModel: boolean; readonly blocks: readonly boolean[] }

export type BreakpointPlace = { readonly message: number; readonly block: number }

/** Blocks before a breakpoint in which the vendor looks for the end of an earlier prefix. */
const LOOK_BACK = 20

/**
 * The last block of the last message, and one 20 blocks before it if the turn of the model and what follows it are longer. Empty: there
 * is no place.
 */
export const placesOf = (messages: readonly MarkableMessage[]): readonly BreakpointPlace[] => {
  const turn = messages.findLastIndex(({ isModel }) => isModel)
  const all = messages.flatMap(({ blocks }, message) => blocks.map((may, block) => ({ may, message, block })))
  const last = all.findLastIndex(({ may, message }) => may && message === messages.length - 1)
  if (last === -1) return []
  const ofTurn = all.filter(({ message }) => message >= turn).length
  const earlier =
    turn >= 0 && ofTurn > LOOK_BACK
      ? all.findLastIndex(({ may, message }, at) => may && at <= last - LOOK_BACK && message >= turn)
      : -1
  return [earlier, last].flatMap((at) => all[at] ?? []).map(({ message, block }) => ({ message, block }))
}
