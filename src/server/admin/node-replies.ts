/** Queries to all workers, and their answers. */

/** The answers of the workers. `of`: how many there should be. */
export type NodeReplies = {
  readonly of: number
  readonly replies: readonly { readonly worker: number; readonly reply: string }[]
}

/** Sends a query to all workers, this one included. Null: the supervisor does not respond. `within`: ms. */
export type AskNodes = (ask: string, within: number) => Promise<NodeReplies | null>
