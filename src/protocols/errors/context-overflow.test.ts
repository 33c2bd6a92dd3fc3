/** Real messages of servers and vendors. `thread`: where users quote them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isContextOverflow, overflowIn } from './context-overflow.ts'

type Figures = readonly [window?: number, prompt?: number, output?: number]

const overflows: readonly (readonly [thread: string, message: string, figures: Figures])[] = [
  ['jundot/omlx#26', 'Prompt too long: 32799 tokens exceeds max context window of 32768 tokens', [32768, 32799]],
  ['ddalcu/mlx-serve#66', 'Prompt exceeds maximum context length', []],
  ['can1357/oh-my-pi#12741 (Z.ai)', 'Prompt exceeds max length', []],
  [
    'Yeachan-Heo/oh-my-claudecode#3574 (LM Studio)',
    'Trying to keep the first 9100 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input',
    [4096, 9100],
  ],
  [
    'vllm-project/vllm#42474',
    "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768 tokens and your request has 2358 input tokens (32000 > 32768 - 2358). (parameter=max_tokens, value=32000)",
    [32768, 2358, 32000],
  ],
  [
    '0xku/kon#91 (vLLM)',
    "This model's maximum context length is 196608 tokens. However, you requested 16384 output tokens and your prompt contains at least 180225 input tokens, for a total of at least 196609 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=180225)",
    [196608, 180225, 16384],
  ],
  [
    'anthropics/claude-code#408',
    'input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648, decrease input length or `max_tokens` and try again',
    [204648, 189136, 20000],
  ],
  ['anthropics/claude-code#16580', 'prompt is too long: 210000 tokens > 200000 maximum', [200000, 210000]],
  [
    'refly-ai/refly#1177 (OpenRouter)',
    'This endpoint\'s maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.',
    [32768, 42832],
  ],
  [
    'Chanzhaoyu/chatgpt-web#372 (OpenAI)',
    "This model's maximum context length is 4096 tokens. However, you requested 4118 tokens (3118 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
    [4096, 3118, 1000],
  ],
  [
    'nicknochnack/LangchainDocuments#2',
    "This model's maximum context length is 4097 tokens, however you requested 4322 tokens (4066 in your prompt; 256 for the completion). Please reduce your prompt; or completion length.",
    [4097, 4066, 256],
  ],
  [
    'crewAIInc/crewAI-examples#121',
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.",
    [8192, 8227],
  ],
  [
    'openai/codex#20866',
    'Your input exceeds the context window of this model. Please adjust your input and try again.',
    [],
  ],
  [
    'cline/cline#3120 (xAI)',
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    [131072, 537812],
  ],
  [
    'google-gemini/gemini-cli (Gemini)',
    'The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).',
    [1048576, 1250000],
  ],
  [
    'google-gemini/gemini-cli#19727 (Vertex AI)',
    'Unable to submit request because the input token count is 1251952 but model only supports up to 1048576. Reduce the input token count and try again.',
    [1048576, 1251952],
  ],
  [
    'MoonshotAI/Kimi-K2 (Moonshot)',
    'Invalid request: Your request exceeded model token limit: 131072 (requested: 140211)',
    [131072, 140211],
  ],
  [
    'QwenLM/qwen-code (Alibaba)',
    '<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]',
    [98304],
  ],
  ['aws-samples/bedrock-chat#95', 'Input is too long for requested model.', []],
  ['nano-step/nano-brain#208 (Ollama)', 'the input length exceeds the context length', []],
  [
    'earendil-works/pi, packages/ai/src/utils/overflow.ts (Mistral)',
    'Prompt contains 32840 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
    [32768, 32840],
  ],
  ['MiniMax-AI/MiniMax-M2#119', 'invalid params, context window exceeds limit (2013)', []],
  [
    'cohere-ai/sandbox-topically#4',
    'too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354. Try using a shorter prompt or a smaller max_tokens value.',
    [2048, 6354],
  ],
  [
    'stanford-crfm/helm#2079 (Text Generation Inference)',
    'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`',
    [4096, 4000, 200],
  ],
  [
    'oobabooga/textgen#7257 (llama.cpp)',
    'the request exceeds the available context size. try increasing the context size or enable context shift',
    [],
  ],
  [
    'QwenLM/Qwen3#1321 (SGLang)',
    "The input (40010 tokens) is longer than the model's context length (32768 tokens).",
    [32768, 40010],
  ],
  [
    'opencode-ai/opencode#305 (GitHub Copilot)',
    'prompt token count of 146270 exceeds the limit of 128000',
    [128000, 146270],
  ],
  [
    'triton-inference-server/tensorrtllm_backend#141',
    'Cannot process new request: Prompt length (5056) exceeds maximum sequence length (2048)',
    [2048, 5056],
  ],
  [
    'cline/cline#294 (SambaNova)',
    'Requested generation length 1 is not possible! The provided prompt is 4309 tokens long, so generating 1 tokens requires a sequence length of 4310, but the maximum supported sequence length is just 4096!',
    [4096, 4309],
  ],
  [
    'SillyTavern/SillyTavern#3543 (TabbyAPI)',
    'Request length 71599 + 2048 is greater than max_seq_len 65536',
    [65536, 71599],
  ],
]
for (const [thread, message, [window, promptTokens, requestedOutput]] of overflows)
  test(`a prompt that is too long: ${thread}`, () => {
    assert.ok(isContextOverflow(message))
    assert.deepEqual(overflowIn(message), {
      ...(window !== undefined && { window }),
      ...(promptTokens !== undefined && { promptTokens }),
      ...(requestedOutput !== undefined && { requestedOutput }),
    })
  })

const others: readonly (readonly [what: string, message: string])[] = [
  [
    'an output limit (OpenAI)',
    'max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.',
  ],
  [
    'an output limit (Groq)',
    '`max_tokens` must be less than or equal to `32768`, the maximum value for `max_tokens` is less than the `context_window` for this model',
  ],
  [
    'an output limit (Anthropic)',
    'max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5',
  ],
  [
    'an output limit (Bedrock)',
    'The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.',
  ],
  ['a thinking budget', '`max_tokens` must be greater than `thinking.budget_tokens`.'],
  [
    'a rate limit (Groq)',
    'Request too large for model `llama-3.3-70b-versatile` in organization `org_1` service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 15344, please reduce your message size and try again.',
  ],
  [
    'a rate limit (Anthropic)',
    'This request would exceed your organization’s rate limit of 30,000 input tokens per minute.',
  ],
  ['a throttle (Bedrock)', 'Too many tokens, please wait before trying again.'],
  [
    'a long member (OpenAI)',
    "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 150 instead.",
  ],
  [
    'a list (OpenAI)',
    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 140 instead.",
  ],
  [
    'a picture (Anthropic)',
    'messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes',
  ],
  ['a document', 'The input PDF exceeds the maximum of 100 pages'],
  ['a budget', 'Token limit reached'],
  ['a temperature', 'temperature: range: 0..1'],
]
for (const [what, message] of others)
  test(`not a prompt that is too long: ${what}`, () => assert.equal(isContextOverflow(message), false))
