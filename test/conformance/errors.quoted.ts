/**
 * Error bodies that no recording has, as vendor pages and issue threads quote them, keyed by the source that rows of the
 * error tables cite. Account and request ids are replaced.
 */
import type { Json } from '../../src/core/json.ts'

type Quoted = {
  readonly status: number
  /** Undefined: an HTML page. */
  readonly body: Json | undefined
  readonly headers?: { readonly [name: string]: string }
  /** The API of the error, if it is not the provider's first. */
  readonly api?: string
}

const openai = (status: number, message: string, more: { readonly [member: string]: Json } = {}): Quoted => ({
  status,
  body: { error: { message, type: 'invalid_request_error', param: null, ...more } },
})
const anthropic = (status: number, type: string, message: string, details?: Json): Quoted => ({
  status,
  api: 'messages',
  body: { type: 'error', error: { type, message, ...(details && { details }) }, request_id: 'req_1' },
})
const google = (code: number, status: string, message: string): Quoted => ({
  status: code,
  api: 'gemini',
  body: { error: { code, message, status } },
})
const bedrock = (status: number, type: string, message: string): Quoted => ({
  status,
  headers: { 'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/com.amazon.bedrock/` },
  body: { message },
})

export const QUOTED: { readonly [seen: string]: readonly Quoted[] } = {
  // ── Ollama ────────────────────────────────────────────────────────────────────────────────────────────────────
  'github.com/ollama/ollama/issues/14795 (2026-03-12)': [
    { status: 400, body: { error: 'registry.ollama.ai/library/Qwen3.5:0.8b does not support tools' } },
  ],

  // ── Bedrock ───────────────────────────────────────────────────────────────────────────────────────────────────
  'docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html (2026-11-21)': [
    bedrock(
      400,
      'ServiceQuotaExceededException',
      'Your request exceeds the service quota for your account. You can resubmit your request later.',
    ),
  ],
  'docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html (2026-11-21)': [
    bedrock(400, 'IncompleteSignature', 'The request signature does not conform to AWS standards.'),
    bedrock(403, 'InvalidClientTokenId', 'The AWS access key ID provided does not exist in AWS records.'),
    bedrock(
      403,
      'InvalidSignatureException',
      'The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method.',
    ),
  ],
  'github.com/langchain-ai/langchain-aws/issues/1019 (2026-04-28)': [
    bedrock(
      400,
      'ValidationException',
      'Invocation of model ID amazon.nova-2-lite-v1:0 with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model.',
    ),
  ],

  'github.com/ai4s-research/open-science/issues/53 (2026-07-24)': [
    { status: 403, body: { Message: 'Authentication failed: Please make sure your API Key is valid.' } },
  ],

  // ── Many providers ────────────────────────────────────────────────────────────────────────────────────────────
  'platform.claude.com/docs/en/api/errors (2026-11-21)': [
    anthropic(200, 'invalid_request_error', 'There was an issue with the format or content of your request.'),
    anthropic(200, 'not_found_error', 'The requested resource was not found.'),
    anthropic(402, 'billing_error', "There's an issue with your billing or payment information."),
    anthropic(403, 'permission_error', 'Your API key does not have permission to use the specified resource.'),
    anthropic(504, 'timeout_error', 'The request timed out while processing.'),
    anthropic(409, 'conflict_error', 'The request conflicts with the current state of a resource.'),
    anthropic(200, 'not_found_error', 'The requested resource was not found.'),
    anthropic(200, 'conflict_error', 'The request conflicts with the current state of a resource.'),
    // From a proxy in front of the API.
    { status: 529, body: undefined },
  ],
  'github.com/openai/codex/issues/8132 (2025-12-16)': [
    openai(400, 'The encrypted content gAAA...Rg== could not be verified.', { code: 'invalid_encrypted_content' }),
  ],
  'github.com/anthropics/claude-code/issues/10627 (2025-10-30)': [
    anthropic(400, 'invalid_request_error', 'messages.1.content.0: Invalid `signature` in `thinking` block'),
  ],
  'github.com/google-gemini/gemini-cli/issues/13467 (2025-11-20)': [
    google(400, 'INVALID_ARGUMENT', 'Corrupted thought signature.'),
  ],
  'github.com/anthropics/claude-code/issues/63267 (2026-05-28)': [
    anthropic(
      400,
      'invalid_request_error',
      'messages.9.content.15: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.',
    ),
  ],
  'github.com/can1357/oh-my-pi/issues/41 (2026-02-12)': [
    {
      ...openai(
        404,
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.",
        { param: 'input' },
      ),
      api: 'responses',
    },
  ],

  'github.com/modelscope/modelscope/issues/1691 (2026-04-25)': [
    {
      status: 429,
      body: {
        error: { http_code: '429', message: 'insufficient balance (1008)', type: 'insufficient_balance_error' },
        request_id: 'x',
      },
    },
  ],
  'developers.openai.com/api/docs/guides/error-codes (2026-11-21)': [
    openai(400, 'Your request was rejected as a result of our safety system.', { code: 'content_policy_violation' }),
    openai(503, 'That model is currently overloaded with other requests.', {
      type: 'service_unavailable_error',
      code: 'server_is_overloaded',
    }),
    openai(429, 'Slow down.', { type: 'rate_limit_error', code: 'slow_down' }),
    openai(403, 'Country, region, or territory not supported', {
      type: 'request_forbidden',
      code: 'unsupported_country_region_territory',
    }),
    openai(503, 'The engine is currently overloaded, please try again later', { type: 'server_error', code: null }),
  ],
  'docs.wandb.ai/support/inference/articles (2026-11-21)': [
    { status: 403, body: { error: { code: 403, message: 'Country, region, or territory not supported' } } },
  ],
  'github.com/ggml-org/llama.cpp/pull/15780 (2025-09-03)': [
    {
      status: 500,
      body: {
        error: {
          code: 500,
          message:
            'the request exceeds the available context size. try increasing the context size or enable context shift',
          type: 'exceed_context_size_error',
          n_prompt_tokens: 1407,
          n_ctx: 256,
        },
      },
    },
  ],

  'docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html (2026-11-21)': [
    bedrock(503, 'ServiceUnavailableException', "The service isn't currently available."),
    bedrock(429, 'ModelNotReadyException', 'The model specified in the request is not ready to serve requests.'),
    bedrock(403, 'AccessDeniedException', 'The request is denied because you do not have sufficient permissions.'),
    bedrock(408, 'ModelTimeoutException', 'The request took too long to process.'),
    bedrock(424, 'ModelErrorException', 'The request failed due to an error while processing the model.'),
  ],
  'Groq, docs/flex-processing (2026-11-21)': [
    openai(498, 'Flex capacity is exceeded.', { code: 'capacity_exceeded' }),
    { status: 498, body: undefined },
  ],
  'github.com/google-gemini/gemini-cli/issues/25607 (2026-04-18)': [
    google(403, 'PERMISSION_DENIED', 'The caller does not have permission'),
  ],
  'cloud.google.com/service-control/reference/rpc/google.rpc (2026-11-21)': [
    google(504, 'DEADLINE_EXCEEDED', 'The deadline expired before the operation could complete.'),
    google(499, 'CANCELLED', 'The operation was cancelled, typically by the caller.'),
  ],
  'openrouter.ai/docs/api/reference/errors-and-debugging (2026-11-21)': [
    { status: 408, body: { error: { code: 408, message: 'Your request timed out' } } },
    {
      status: 402,
      body: {
        error: {
          code: 402,
          message: 'The budget for requests in flight is reached.',
          metadata: { limit_source: 'openrouter_in_flight_budget' },
        },
      },
    },
    {
      status: 402,
      headers: { 'retry-after': '3' },
      body: { error: { code: 402, message: 'The budget for requests in flight is reached.' } },
    },
  ],
  'github.com/curl/curl/discussions/16143 (2026-11-21)': [{ status: 522, body: undefined }],

  // ── One provider ──────────────────────────────────────────────────────────────────────────────────────────────
  'github.com/anthropics/claude-code/issues/38035 (2026-03-24)': [
    anthropic(
      400,
      'invalid_request_error',
      'You have reached your specified API usage limits. You will regain access on 2026-04-01 at 00:00 UTC.',
    ),
  ],
  'platform.claude.com/docs/en/api/rate-limits (2026-11-21)': [
    anthropic(429, 'rate_limit_error', 'Your organization has reached its monthly spend limit.', {
      error_code: 'enforced_spend_limit_reached',
    }),
  ],
  'help.openai.com/en/articles/6614457 (2026-11-21)': [
    openai(429, 'No credits are left.', { type: 'rate_limit_error', code: 'credit_balance_exhausted' }),
    openai(429, 'The spend limit of the organization is reached.', {
      type: 'rate_limit_error',
      code: 'organization_spend_limit_exceeded',
    }),
  ],

  'github.com/poenl/gemini-api/issues/4 (2025-11-08)': [
    google(400, 'FAILED_PRECONDITION', 'User location is not supported for the API use.'),
  ],
  'github.com/continuedev/continue/issues/11541 (2026-03-17)': [
    google(403, 'PERMISSION_DENIED', 'Your API key was reported as leaked. Please use another API key.'),
  ],
  'github.com/coaidev/coai/issues/67 (2024-02-02)': [
    google(403, 'PERMISSION_DENIED', "Permission denied: Consumer 'api_key:AIza***' has been suspended."),
  ],
  'github.com/poenl/gemini-api/issues/8 (2026-04-02)': [
    google(403, 'PERMISSION_DENIED', 'Your project has been denied access. Please contact support.'),
  ],
  'github.com/thepersonalaicompany/amurex-backend/issues/38 (2025-02-11)': [
    openai(400, "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details.", {
      code: 'json_validate_failed',
      failed_generation: '',
    }),
  ],
  'github.com/RightNow-AI/openfang/issues/60 (2026-02-28)': [
    openai(400, 'The model `deepseek-r1-distill-llama-70b` has been decommissioned and is no longer supported.', {
      param: '',
      code: 'model_decommissioned',
    }),
  ],
  'Groq, docs/spend-limits (2026-11-21)': [
    openai(400, 'API access is blocked: the spend limit is reached.', { code: 'blocked_api_access' }),
  ],
  'github.com/langbot-app/LangBot/issues/1643 (2025-09-02)': [
    openai(400, 'Model Not Exist', { code: 'invalid_request_error' }),
  ],
  'github.com/666ghj/BettaFish/issues/108 (2025-11-04)': [
    openai(400, 'Content Exists Risk', { code: 'invalid_request_error' }),
  ],
  'github.com/RooCodeInc/Roo-Code/issues/515 (2025-01-23)': [
    {
      status: 403,
      body: { error: { message: 'Key limit exceeded. Manage it using https://openrouter.ai/keys', code: 403 } },
    },
  ],
  'github.com/anomalyco/opencode/issues/12219 (2026-05-04)': [
    {
      status: 402,
      body: {
        error: {
          message:
            'Prompt tokens limit exceeded: 230799 > 91442. To increase, visit https://openrouter.ai/settings/keys and create a key with a higher monthly limit',
          code: 402,
        },
      },
    },
  ],
  'github.com/OpenRouterTeam/openrouter-examples/issues/74 (2026-05-06)': [
    { status: 400, body: { error: { message: 'claude-sonnet-4-6 is not a valid model ID', code: 400 } } },
  ],
  'github.com/continuedev/continue/issues/10778 (2026-02-24)': [
    {
      status: 400,
      body: {
        code: 'Client specified an invalid argument',
        error: 'Incorrect API key provided: na***ys. You can obtain an API key from https://console.x.ai.',
      },
    },
  ],
  'github.com/continuedev/continue/issues/12670 (2026-06-16)': [
    {
      status: 403,
      body: {
        code: 'The caller does not have permission to execute the specified operation',
        error:
          "Your newly created team doesn't have any credits or licenses yet. You can purchase those on https://console.x.ai.",
      },
    },
  ],
  'github.com/continuedev/continue/issues/10373 (2026-02-09)': [
    {
      status: 429,
      body: {
        code: 'Some resource has been exhausted',
        error:
          'Your team TEAM has either used all available credits or reached its monthly spending limit. To continue making API requests, please purchase more credits or raise your spending limit.',
      },
    },
  ],
  'github.com/Wei-Shaw/sub2api/issues/4069 (2026-07-11)': [
    {
      status: 403,
      body: {
        code: 'x',
        error: 'You have run out of credits or need a Grok subscription. Add credits at https://grok.com.',
      },
    },
  ],
  'github.com/UKGovernmentBEIS/inspect_ai/pull/2267 (2025-08-12)': [
    {
      status: 403,
      body: {
        code: 'The caller does not have permission to execute the specified operation',
        error: 'Content violates usage guidelines. Team: TEAM, Model: grok-4-0709, Failed check: SAFETY_CHECK_TYPE_BIO',
      },
    },
  ],

  'github.com/pollinations/pollinations/issues/12136 (2026-07-01)': [
    openai(
      412,
      'Account ACCOUNT is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices.',
      { code: 'PRECONDITION_FAILED', type: 'error' },
    ),
  ],
  'github.com/MoonshotAI/Kimi-K2/issues/5 (2025-07-12)': [
    openai(403, 'Your account ACCOUNT is not active, organization ORG exceeded current quota.', {
      type: 'exceeded_current_quota_error',
    }),
  ],
  'github.com/zai-org/GLM-5/issues/148 (2026-09-11)': [
    {
      status: 429,
      body: { error: { code: '1113', message: 'Insufficient balance or no resource package. Please recharge.' } },
    },
  ],
  'github.com/MiniMax-AI/MiniMax-M2/issues/62 (2025-12-23)': [
    {
      status: 500,
      body: { type: 'error', error: { type: 'api_error', message: 'insufficient balance (1008)' }, request_id: 'x' },
    },
  ],
  'github.com/hsliuping/TradingAgents-CN/issues/170 (2025-07-25)': [
    openai(400, 'Access denied, please make sure your account is in good standing.', {
      code: 'Arrearage',
      type: 'Arrearage',
    }),
  ],
  'github.com/camel-ai/owl/issues/432 (2025-03-28)': [
    openai(400, 'Input data may contain inappropriate content.', {
      code: 'data_inspection_failed',
      type: 'data_inspection_failed',
    }),
  ],
  'github.com/QwenLM/qwen-code/issues/3145 (2026-04-11)': [
    openai(400, '<400> InternalError.Algo.DataInspectionFailed: Input text data may contain inappropriate content.', {
      code: 'invalid_parameter_error',
    }),
  ],
  'github.com/eslint/tsc-meetings/pull/593 (2025-07-03)': [
    {
      status: 413,
      body: {
        error: {
          code: 'tokens_limit_reached',
          message: 'Request body too large for gpt-4o model. Max size: 8000 tokens.',
          details: 'Request body too large for gpt-4o model. Max size: 8000 tokens.',
        },
      },
    },
  ],
  'github.com/diegosouzapw/OmniRoute/issues/6980 (2026-07-12)': [
    {
      status: 429,
      body: {
        success: false,
        result: {},
        errors: [
          {
            code: 4006,
            message:
              "you have used up your daily free allocation of 10,000 neurons, please upgrade to Cloudflare's Workers Paid plan",
          },
        ],
      },
    },
  ],
  'github.com/arlanrakh/talk-to-girlfriend-ai/issues/6 (2026-01-11)': [
    openai(403, 'AI Gateway requires a valid credit card on file to service requests.', {
      type: 'customer_verification_required',
    }),
  ],
  // ── By shape and status ───────────────────────────────────────────────────────────────────────────────────────
  'github.com/anthropics/claude-code/issues/58367 (2026-05-12)': [
    anthropic(400, 'invalid_request_error', 'Output blocked by content filtering policy'),
  ],
  'github.com/boldsoftware/exe.dev/issues/8 (2025-12-21)': [
    { status: 413, body: { error: { type: 'request_too_large', message: 'Request exceeds the maximum size' } } },
  ],
  'github.com/google-gemini/gemini-cli/issues/13776 (2025-11-25)': [
    {
      status: 413,
      body: {
        error: {
          message: 'Maximum request body size 1048576 exceeded, actual body size 1056562',
          code: 413,
          status: 'Request Entity Too Large',
        },
      },
    },
    { status: 413, body: undefined },
    { status: 413, body: {} },
  ],
  'github.com/google-gemini/deprecated-generative-ai-android/issues/26 (2023-12-21)': [
    google(400, 'INVALID_ARGUMENT', 'Request payload size exceeds the limit: 4194304 bytes.'),
  ],
  'github.com/harry0703/MoneyPrinterTurbo/issues/57 (2024-03-25)': [
    openai(404, 'Invalid URL (POST /v1/chat/completions/chat/completions)', { code: null }),
    { status: 404, body: undefined },
    { status: 404, body: { detail: 'Not Found' } },
  ],
}

/** Refusals in the vendors' words that no row cites: without a row a refusal is not the client's fault. */
export const REFUSALS: { readonly [seen: string]: readonly Quoted[] } = {
  'github.com/datapizza-labs/datapizza-ai/issues/98 (2025-12-04)': [
    {
      status: 400,
      api: 'mistral',
      body: {
        object: 'error',
        message: "Unexpected role 'user' after role 'tool'",
        type: 'invalid_request_message_order',
        param: null,
        code: '3230',
      },
    },
  ],
  'github.com/janhq/jan/issues/8136 (2026-05-13)': [
    openai(
      400,
      "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]",
    ),
    // Cerebras: github.com/Kilo-Org/kilocode/issues/10375 (2026-05-19).
    {
      status: 400,
      body: {
        message:
          "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported",
        type: 'invalid_request_error',
        param: 'validation_error',
        code: 'wrong_api_format',
      },
    },
    // Groq: github.com/fanenr/chatbot/issues/21 (2024-12-14).
    openai(400, "property 'store' is unsupported, did you mean 'stop'?"),
  ],
  'github.com/Wei-Shaw/claude-relay-service/issues/660 (2025-11-12)': [
    anthropic(400, 'invalid_request_error', 'context_management: Extra inputs are not permitted'),
    // A compatible server: github.com/1Panel-dev/MaxKB/issues/2912 (2025-04-17).
    {
      status: 400,
      body: {
        object: 'error',
        message:
          "[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted', 'input': 800}]",
        type: 'BadRequestError',
        param: null,
        code: 400,
      },
    },
  ],
  'github.com/vllm-project/vllm/issues/6862 (2024-07-27)': [
    {
      status: 400,
      body: {
        object: 'error',
        message:
          'After the optional system message, conversation roles must alternate user/assistant/user/assistant/...',
        type: 'BadRequestError',
        param: null,
        code: 400,
      },
    },
    // Perplexity: github.com/perplexityai/api-discussion/issues/265 (2025-04-01).
    {
      status: 400,
      body: {
        error: {
          message: 'After the (optional) system message(s), user and assistant roles should be alternating.',
          type: 'invalid_message',
          code: 400,
        },
      },
    },
    // The same error, later: github.com/iamsrikanthnani/pluely/issues/71 (2025-09-23).
    {
      status: 400,
      body: {
        error: {
          message:
            'After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s).',
          type: 'invalid_message',
          code: 400,
        },
      },
    },
  ],
  'github.com/swiss-ai/model-launch/issues/213 (2026-08-27)': [
    {
      status: 400,
      body: {
        object: 'error',
        message: '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        type: 'BadRequestError',
        param: null,
        code: 400,
      },
    },
  ],
  'github.com/earendil-works/pi/issues/3636 (2026-04-24)': [
    openai(400, 'The `reasoning_content` in the thinking mode must be passed back to the API.', {
      code: 'invalid_request_error',
    }),
    // Its messages endpoint: github.com/decolua/9router/issues/2397 (2026-07-05).
    openai(400, 'The `content[].thinking` in the thinking mode must be passed back to the API.', {
      code: 'invalid_request_error',
    }),
  ],
  'github.com/rikkahub/rikkahub/issues/1433 (2026-07-03)': [
    openai(
      400,
      'Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 679289',
      { code: 'invalid_request_error' },
    ),
  ],
  'github.com/pipecat-ai/pipecat/issues/4043 (2026-03-16)': [
    openai(
      400,
      'Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead.',
      { param: 'reasoning_effort', code: null },
    ),
  ],
  'github.com/querymt/querymt/issues/976 (2026-09-22)': [
    {
      ...openai(
        400,
        "Invalid 'input[2].content': array too long. Expected an array with maximum length 0, but got an array with length 1 instead.",
        { param: 'input[2].content', code: 'array_above_max_length' },
      ),
      api: 'responses',
    },
  ],
  'github.com/jlcodes99/cockpit-tools/issues/2090 (2026-08-26)': [
    {
      ...openai(400, "Invalid 'input[66].id': 'item_df7e'. Expected an ID that begins with 'rs'.", {
        param: 'input[66].id',
        code: 'invalid_id_prefix',
      }),
      api: 'responses',
    },
  ],
  'github.com/continuedev/continue/issues/10018 (2026-01-29)': [
    {
      ...openai(
        400,
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        { param: 'input', code: null },
      ),
      api: 'responses',
    },
  ],
  'github.com/zed-industries/zed/pull/33317 (2025-06-24)': [
    anthropic(
      400,
      'invalid_request_error',
      'messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).',
    ),
  ],
  'github.com/smallmain/vscode-unify-chat-provider/issues/249 (2026-07-07)': [
    anthropic(
      400,
      'invalid_request_error',
      'This model does not support assistant message prefill. The conversation must end with a user message.',
    ),
  ],
  'github.com/googleapis/js-genai/issues/1609 (2026-05-18)': [
    google(400, 'INVALID_ARGUMENT', 'Multiple candidates is not enabled for this model'),
  ],
  'github.com/googleapis/python-aiplatform/issues/3743 (2024-05-03)': [
    google(400, 'INVALID_ARGUMENT', 'Only one candidate can be specified'),
  ],
  'github.com/genkit-ai/genkit/issues/546 (2024-07-04)': [
    google(
      400,
      'INVALID_ARGUMENT',
      'Unable to submit request because candidateCount must be 1 but the entered value was 3. Update the candidateCount value and try again.',
    ),
  ],
  'github.com/pipecat-ai/pipecat/pull/4862 (2026-06-23)': [
    {
      status: 400,
      body: { error: { message: 'Tool calling is not supported for this model', type: 'invalid_message', code: 400 } },
    },
  ],
  'github.com/BerriAI/litellm/issues/11665 (2025-06-12)': [
    {
      status: 400,
      body: {
        error: {
          message:
            "[\"At body -> messages -> 0 -> content: Field required\", \"At body -> messages -> 1 -> role: Input should be 'system', 'user' or 'assistant'\"]",
          type: 'bad_request',
          code: 400,
        },
      },
    },
  ],
  'github.com/OpenRouterTeam/openrouter-examples/issues/71 (2026-03-23)': [
    {
      status: 422,
      api: 'cohere',
      body: {
        message:
          "unknown field: parameter 'strict' is not a valid field. For proper usage, please refer to https://docs.cohere.com/reference/chat",
      },
    },
  ],
  'github.com/onyx-dot-app/onyx/issues/7842 (2026-01-27)': [
    bedrock(
      400,
      'ValidationException',
      'The toolConfig field must be defined when using toolUse and toolResult content blocks.',
    ),
  ],
  'github.com/chenyme/grok2api/issues/814 (2026-07-28)': [
    {
      status: 400,
      body: {
        code: 'invalid-argument',
        error: 'Model grok-4.20-0309-reasoning does not support parameter reasoningEffort.',
      },
    },
  ],
  'github.com/yym68686/uni-api/issues/105 (2025-04-24)': [
    {
      status: 400,
      body: {
        code: 'Client specified an invalid argument',
        error: 'Argument not supported on this model: presencePenalty',
      },
    },
  ],
  'github.com/gptme/gptme/issues/314 (2024-12-10)': [
    openai(
      400,
      "'messages.0' : for 'role:system' the following must be satisfied[('messages.0.content' : value must be a string)]",
    ),
  ], // ── Without a code ────────────────────────────────────────────────────────────────────────────────────────────
  'github.com/generative-computing/mellea/issues/270': [
    openai(400, 'Unrecognized request argument supplied: reasoning_effort', { code: null }),
  ],
  'github.com/QwenLM/qwen-code/issues/243': [
    openai(400, "The 'metadata' parameter is only allowed when 'store' is enabled.", { code: null }),
  ],
  'github.com/deepseek-ai/DeepSeek-V3/issues/1376 (2026-05-30)': [
    {
      status: 400,
      body: { error: { message: 'Thinking mode does not support this tool_choice', type: 'invalid_request_error' } },
    },
  ],
  'github.com/UKGovernmentBEIS/inspect_ai/issues/4916': [
    openai(400, 'This response_format type is unavailable now', { code: 'invalid_request_error' }),
  ],
  'github.com/googleapis/python-genai/issues/1921 (2026-01-07)': [
    google(400, 'INVALID_ARGUMENT', 'Logprobs is not enabled for models/gemini-2.5-pro'),
  ],
  'github.com/GoogleCloudPlatform/generative-ai/issues/2947 (2026-06-22)': [
    google(400, 'INVALID_ARGUMENT', 'Unable to submit request because Logprobs is not supported for this model.'),
  ],
  'github.com/PublicAffairs/openai-gemini/issues/63 (2025-07-13)': [
    google(400, 'INVALID_ARGUMENT', 'Penalty is not enabled for models/gemini-2.5-flash-preview-05-20'),
  ],
  'github.com/vercel/ai/issues/16540': [
    openai(400, 'json mode cannot be combined with tool/function calling', { code: null }),
  ],
  'github.com/opencyvis/opencyvis-phone/issues/12 (2026-06-12)': [
    {
      status: 400,
      body: {
        error: { message: 'invalid temperature: only 1 is allowed for this model', type: 'invalid_request_error' },
      },
    },
  ],
  'github.com/arcsin1/oh-my-ppt/issues/45 (2026-05-13)': [
    {
      status: 400,
      body: {
        error: { message: 'invalid temperature: only 0.6 is allowed for this model', type: 'invalid_request_error' },
      },
    },
  ],
  'github.com/quelmap-inc/quelmap/issues/4 (2025-10-28)': [
    openai(
      400,
      "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
      {
        param: 'temperature',
        code: 'unsupported_value',
      },
    ),
  ],
  'github.com/huggingface/serge/pull/27 (2026-06-24)': [
    openai(400, '`temperature` is deprecated for this model.', { code: 'invalid_request_error' }),
  ],
  'github.com/vogler75/monster-mq/issues/168 (2026-08-20)': [
    anthropic(400, 'invalid_request_error', 'temperature is deprecated for this model.'),
  ],
  'github.com/router-for-me/CLIProxyAPI/issues/193 (2025-10-31)': [
    anthropic(
      400,
      'invalid_request_error',
      'temperature and top_p cannot both be specified for this model. Please use only one.',
    ),
  ],
  'github.com/Kilo-Org/cloud/pull/3807 (2026-06-08)': [
    {
      status: 400,
      body: {
        error: {
          message:
            "Unsupported value: 'reasoning_effort' does not support 'none' with this model. Supported values are: 'minimal', 'low', 'medium', and 'high'.",
          type: 'invalid_request_error',
        },
      },
    },
  ],
  'github.com/cloudwego/eino/issues/994 (2026-04-24)': [
    openai(
      400,
      '<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or object in thinking mode',
      { code: 'invalid_parameter_error' },
    ),
  ],
  'github.com/OpenBMB/UltraRAG/issues/287 (2026-01-29)': [
    openai(400, 'parameter.enable_thinking must be set to false for non-streaming calls', {
      code: 'invalid_parameter_error',
    }),
  ],
  'github.com/lobehub/lobehub/issues/8613 (2025-07-30)': [
    openai(
      400,
      'Provider API error: <400> InternalError.Algo.InvalidParameter: The value of the enable_thinking parameter is restricted to True. (request id: 20250730xxxxxxxxxxxxxxxx)',
      { code: 'invalid_parameter_error' },
    ),
  ],
  'github.com/ollama/ollama/issues/17301 (2026-07-22)': [
    {
      status: 400,
      body: { error: 'this model does not support image input (ref: b8bd630e-4a39-4b57-82af-9158ee9d5703)' },
    },
  ],
  'github.com/maximhq/bifrost/issues/1000': [
    openai(
      400,
      "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 150 instead.",
      { param: 'user', code: 'string_above_max_length' },
    ),
  ],
  // ── 404s about the request ────────────────────────────────────────────────────────────────────────────────────
  'github.com/nexu-io/nexu/issues/733 (2026-04-01)': [
    { status: 404, body: { error: { message: 'No endpoints found that support image input', code: 404 } } },
  ],
  'github.com/rbb-dev/Open-WebUI-OpenRouter-pipe/issues/58 (2026-07-28)': [
    {
      status: 404,
      body: {
        error: {
          message:
            'No endpoints found that support tool use. Try disabling "get_current_timestamp". To learn more about provider routing, visit: https://openrouter.ai/docs/guides/routing/provider-selection',
          code: 404,
        },
      },
    },
  ],
  'github.com/zed-industries/zed/issues/36094': [
    {
      status: 404,
      body: {
        error: {
          message:
            "No endpoints found that support the provided 'tool_choice' value. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing",
          code: 404,
        },
      },
    },
  ],
  'github.com/ShamanicArts/Flow.Launcher.Plugin.AI-Assistant/issues/2 (2025-04-07)': [
    { status: 404, body: { error: { message: 'No endpoints found matching your data policy', code: 404 } } },
  ],
  'github.com/truefoundry/models/pull/826': [
    {
      status: 404,
      body: {
        error: {
          message:
            'No endpoints available matching your guardrail restrictions and data policy. Configure: https://openrouter.ai/settings/privacy',
          code: 404,
        },
      },
    },
  ],
}

/** Prompts that are too long, recognised by shape. */
export const OVERFLOWS: { readonly [seen: string]: readonly Quoted[] } = {
  'github.com/nano-step/nano-brain/issues/208 (2026-05-30)': [
    { status: 400, body: { error: 'the input length exceeds the context length' } },
  ],
  'github.com/aws-samples/bedrock-chat/issues/95 (2023-12-13)': [
    bedrock(400, 'ValidationException', 'Input is too long for requested model.'),
  ],
  'github.com/earendil-works/pi/blob/main/packages/ai/src/utils/overflow.ts (2026-11-23)': [
    {
      status: 400,
      api: 'mistral',
      body: {
        object: 'error',
        message: 'Prompt contains 300000 tokens, too large for model with 131072 maximum context length',
        type: 'invalid_request_error',
        param: null,
        code: null,
      },
    },
  ],
  'github.com/oobabooga/textgen/issues/7257 (2025-10-07)': [
    openai(400, 'the request exceeds the available context size. try increasing the context size', {
      code: 400,
      type: 'server_error',
    }),
  ],
  'github.com/anthropics/claude-code/issues/16580 (2026-01-07)': [
    anthropic(
      400,
      'invalid_request_error',
      'input length and `max_tokens` exceed context limit: 193125 + 21333 > 200000, decrease input length or `max_tokens` and try again',
    ),
  ],
  'github.com/QwenLM/Qwen3/issues/1321 (2025-04-29)': [
    {
      status: 400,
      body: {
        object: 'error',
        message: "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
        type: 'BadRequestError',
        param: null,
        code: 400,
      },
    },
  ],
  'github.com/stanford-crfm/helm/pull/2079 (2023-12-05)': [
    openai(
      422,
      'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2019 `inputs` tokens and 30 `max_new_tokens`',
    ),
  ],
  'github.com/cline/cline/issues/3120 (2025-04-25)': [
    {
      status: 400,
      body: {
        code: 'Client specified an invalid argument',
        error: "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
      },
    },
  ],
}
