/**
 * LiteLLM's generic guardrail API (docs.litellm.ai/docs/adding_provider/generic_guardrail_api), which guards of many vendors
 * implement.
 */
import { isList, isObject, type JsonObject } from '../../../core/json.ts'
import { ALLOWED, type AskedTexts, found, maskedParts, type ServiceCall, type ServiceReading } from './service-call.ts'

const PATH = '/beta/litellm_basic_guardrail_api'

/** `parameters`: `additional_provider_specific_params`. Images, tools and messages are optional there, and not sent. */
export const litellmCalls = (
  { parameters }: { readonly parameters: JsonObject },
  asked: AskedTexts,
): readonly ServiceCall[] => {
  const { id, phase, team, key, texts } = asked
  const body: JsonObject = {
    texts: texts.map((one) => one.text),
    request_data: {
      user_api_key_hash: key.id,
      user_api_key_alias: key.name,
      user_api_key_team_id: team.id,
      user_api_key_team_alias: team.name,
    },
    input_type: phase === 'request' ? 'request' : 'response',
    litellm_call_id: id,
    additional_provider_specific_params: parameters,
  }
  return [{ path: PATH, body, read: (answer) => read(answer, asked) }]
}

/** `blocked_reason` may quote the text, so no one receives it. */
const read = (answer: unknown, asked: AskedTexts): ServiceReading => {
  if (!isObject(answer)) return { wrong: 'the answer is not an object' }
  switch (answer.action) {
    case 'NONE':
      return ALLOWED
    case 'BLOCKED':
      return found('block', [])
    case 'GUARDRAIL_INTERVENED': {
      const { texts } = answer
      if (!isList(texts) || !texts.every((one) => typeof one === 'string'))
        return { wrong: 'GUARDRAIL_INTERVENED without texts' }
      if (texts.length !== asked.texts.length)
        return { wrong: `${texts.length} texts in the answer to ${asked.texts.length}` }
      return maskedParts(
        texts.flatMap((replacement, i) => {
          const text = asked.texts[i]?.text ?? ''
          return replacement === text ? [] : [{ i, start: 0, end: text.length, label: '', replacement }]
        }),
      )
    }
    default:
      return { wrong: 'action is none of NONE, BLOCKED and GUARDRAIL_INTERVENED' }
  }
}
