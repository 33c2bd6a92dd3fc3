/** Reads from a refusal how many inputs an embeddings provider takes in one call. */
import type { Failure } from '../../core/failure.ts'

/** Statuses of such refusals: 413 of text-embeddings-inference, 422 of FastAPI servers. */
const STATUSES: ReadonlySet<number | undefined> = new Set([400, 413, 422])

/** A limit after its words: "at most 96", "larger than 10", "> maximum allowed batch size 32". */
const LIMIT_AFTER =
  /(?:at most|max(?:imum)?|up to|(?:larger|greater|longer|more|higher) than|limit(?:ed)?|allowed|exceeds?|less than or equal to|>|<=|≤)[^0-9]{0,40}([0-9]{1,6})/gi
/** A limit before its words: "250 instance(s) is allowed per prediction" (onyx-dot-app/onyx#2343). */
const LIMIT_BEFORE = /([0-9]{1,6}) [a-z()]{1,20} (?:is|are) allowed/gi
/** Things of which a batch has several. */
const ABOUT_BATCH =
  /batch|\b(?:input|text|request|item|instance|element|document|content|sequence)s?\b|instance\(s\)|array|\blist\b/i
/** A sum over all inputs, not the length of one. */
const TOKENS_IN_ALL = /tokens?\b.{0,60}(?:batch|per request|overall|in total)|batch.{0,60}tokens?\b/i
/** llama.cpp: "input (992 tokens) is too large to process. increase the physical batch size". */
const ONE_INPUT = /physical batch/i
/** Without figures: "Too many inputs in request, split into more batches." */
const WITHOUT_FIGURES =
  /split .{0,20}batch|too many (?:inputs|texts|documents|items|tokens overall)|batch.{0,30}too (?:large|big)/i

/**
 * The number of inputs to send in one call after this refusal of `sent` inputs. Undefined: it says nothing about their
 * number. A limit of tokens is converted by the share of tokens that fits; without figures the number is halved.
 */
export const smallerBatch = ({ status, upstream, message }: Failure, sent: number): number | undefined => {
  if (sent < 2 || !STATUSES.has(status)) return undefined
  const words = (upstream?.message ?? message).slice(0, MAX_LENGTH)
  if (ONE_INPUT.test(words)) return undefined
  if (TOKENS_IN_ALL.test(words)) return shareOf(words, sent)
  const limit = ABOUT_BATCH.test(words) && !/tokens?\b/i.test(words) ? limitIn(words, sent) : undefined
  return limit ?? (WITHOUT_FIGURES.test(words) ? Math.ceil(sent / 2) : undefined)
}

const MAX_LENGTH = 2_000

const limitIn = (words: string, sent: number): number | undefined =>
  [...words.matchAll(LIMIT_AFTER), ...words.matchAll(LIMIT_BEFORE)]
    .map(([, figure]) => Number(figure))
    .find((figure) => figure > 0 && figure < sent)

/** "Requested 453357 tokens, max 300000 tokens per request", "Max is 16384 got 17555". The inputs differ in length. */
const shareOf = (words: string, sent: number): number => {
  const figures = [...words.matchAll(/[0-9]{3,9}/g)].map(([figure]) => Number(figure)).sort((one, other) => one - other)
  const [limit, requested] = figures.slice(-2)
  const share = limit !== undefined && requested !== undefined ? limit / requested : 0.5
  return Math.max(1, Math.floor(sent * Math.min(share * 0.8, 0.5)))
}
