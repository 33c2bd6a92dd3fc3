/** Ids this format does not take are replaced by ones it does: a function of the original alone, so it needs no state. */
import { digest } from '../shared/call-ids.ts'

const ID = /^[a-zA-Z0-9]{9}$/

/**
 * The id of a call has to be nine letters and digits (400, code 3280; karthink/gptel#1203). Mistral's own, which clients
 * are given as they are, pass; another's becomes nine characters of its hash, the same for call and result in every turn:
 * of 1e14 there are, a conversation uses hundreds.
 */
export const callId = (id: string): string => (ID.test(id) ? id : digest(id).slice(1, 10))
