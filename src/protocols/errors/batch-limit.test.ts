import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../../core/failure.ts'
import { smallerBatch } from './batch-limit.ts'

/** Refusals in the words of servers, with their public source. */
const cases: readonly (readonly [message: string, status: number, sent: number, most: number | undefined])[] = [
  // Cohere: run-llama/llama_index#18915.
  ['invalid request: total number of texts must be at most 96 - received 250', 400, 250, 96],
  // Gemini: vercel/ai#16101.
  ['* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch\n', 400, 150, 100],
  // DashScope: memodb-io/memobase#142, langchain4j/langchain4j#1140, n4ze3m/page-assist#371.
  [
    '<400> InternalError.Algo.InvalidParameter: Value error, batch size is invalid, it should not be larger than 10.: input.contents',
    400,
    401,
    10,
  ],
  ['batch size is invalid, it should not be larger than 25.: payload.input.contents', 400, 100, 25],
  // text-embeddings-inference: coze-dev/coze-studio#455; llama-server: garrytan/gbrain#1281.
  ['batch size 100 > maximum allowed batch size 32', 413, 100, 32],
  // SiliconFlow: apecloud/ApeRAG#716.
  ['input batch size 136 > maximum allowed batch size 64', 413, 136, 64],
  // Vertex AI: onyx-dot-app/onyx#2343.
  ['250 instance(s) is allowed per prediction. Actual: 512', 400, 512, 250],
  // Jina: refly-ai/refly#831.
  ['input length is larger than the largest allowed size 2048', 400, 3_000, 2_048],
  // OpenAI, and servers that validate with pydantic.
  [
    "Invalid 'input': array too long. Expected an array with maximum length 2048, but got an array with length 3000 instead.",
    400,
    3_000,
    2_048,
  ],
  ['body.input: List should have at most 1024 items after validation, not 2000', 422, 2_000, 1_024],
  // Mistral: raphaelmansuy/edgequake-llm#74, chroma-core/chroma#5597, aurelio-labs/semantic-router#297.
  ['Too many inputs in request, split into more batches.', 400, 700, 350],
  ['Too many tokens overall, split into more batches.', 400, 100, 40],
  ['Too many tokens in batch. Max is 16384 got 17555', 400, 100, 50],
  // OpenAI: OpenDataBox/CrackSQL#27.
  ['Requested 453357 tokens, max 300000 tokens per request', 400, 1_000, 500],
  ['Requested 900000 tokens, max 300000 tokens per request', 400, 1_000, 266],
  // Voyage: sigoden/aichat#825.
  [
    "Request to model 'voyage-large-2-instruct' failed. The max allowed tokens per submitted batch is 120000. Your batch has 121138 tokens after truncation. Please lower the number of tokens in the batch.",
    400,
    128,
    64,
  ],
  // One input that is too long: no number of calls helps. Fergana-Labs/stash#268, ggml-org/llama.cpp#12836.
  ['400: maximum input length is 8192 tokens', 400, 10, undefined],
  [
    'input (992 tokens) is too large to process. increase the physical batch size (current batch size: 512)',
    400,
    10,
    undefined,
  ],
  ["This model's maximum context length is 8192 tokens, however you requested 9000 tokens", 400, 10, undefined],
  // Other refusals.
  ['batch size 100 > maximum allowed batch size 32', 429, 100, undefined],
  ['invalid api token', 400, 100, undefined],
  ['dimensions must be at most 64', 400, 100, undefined],
  ['total number of texts must be at most 96 - received 1', 400, 1, undefined],
]
for (const [message, status, sent, most] of cases)
  test(`batch limit: ${sent} inputs: ${message.slice(0, 60)}`, () => {
    const failure = { ...fail('invalid_request', message, { status }), upstream: { message } }
    assert.equal(smallerBatch(failure, sent), most)
  })
