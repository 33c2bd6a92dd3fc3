/** The scripts of the conversations. Every text contains a unique mark, so that a loss can be detected. */
import type { JsonObject } from '../../src/core/json.ts'
import type { Answer } from './answers.ts'
import type { Features, Input } from './clients.ts'
import type { Ability } from './vendors.ts'

export type ScenarioTurn = { readonly input: Input; readonly answer: Answer }

export type Scenario = {
  readonly name: string
  readonly needs: readonly Ability[]
  readonly features: Features
  readonly turns: readonly [ScenarioTurn, ScenarioTurn, ScenarioTurn]
}

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const parameters: JsonObject = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const tools = [
  { name: 'get_weather', parameters },
  { name: 'get_time', parameters },
]
/** As MCP servers describe a tool without arguments. */
const noArguments = { name: 'list_regions', parameters: { type: 'object' } }
const call = (mark: string, name = 'get_weather') => ({ name, arguments: { city: mark } })
const user = (turn: number): Input => ({ user: [`question-${turn}`] })
const words = (turn: number): Answer => ({ thought: `thought-${turn}`, text: `answer-${turn}` })

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'a call, then text',
    needs: ['tools'],
    features: { tools },
    turns: [
      { input: user(1), answer: { thought: 'thought-1', calls: [call('argument-1')] } },
      { input: { results: ['result-1'] }, answer: words(2) },
      { input: user(3), answer: words(3) },
    ],
  },
  {
    name: 'parallel calls, then another call',
    needs: ['tools'],
    features: { tools },
    turns: [
      {
        input: user(1),
        answer: { ...words(1), calls: [call('argument-1a'), call('argument-1b'), call('argument-1c', 'get_time')] },
      },
      {
        input: { results: ['result-1a', 'result-1b', 'result-1c'] },
        answer: { thought: 'thought-2', calls: [call('argument-2')] },
      },
      { input: { results: ['result-2'] }, answer: words(3) },
    ],
  },
  {
    name: 'text, then a call, forced, beside a tool without arguments',
    needs: ['tools'],
    features: { tools: [...tools, noArguments], forced: true },
    turns: [
      { input: user(1), answer: words(1) },
      { input: user(2), answer: { thought: 'thought-2', calls: [call('argument-2')] } },
      { input: { results: ['result-2'] }, answer: words(3) },
    ],
  },
  {
    name: 'a picture',
    needs: ['pictures'],
    features: {},
    turns: [
      { input: { user: ['question-1'], picture: PNG }, answer: words(1) },
      { input: user(2), answer: words(2) },
      { input: user(3), answer: words(3) },
    ],
  },
  {
    name: 'a schema',
    needs: ['schemas'],
    features: {
      schema: {
        type: 'object',
        properties: { schema_mark: { type: 'string' } },
        required: ['schema_mark'],
        additionalProperties: false,
      },
    },
    turns: [
      { input: user(1), answer: { thought: 'thought-1', text: '{"schema_mark":"answer-1"}' } },
      { input: user(2), answer: { thought: 'thought-2', text: '{"schema_mark":"answer-2"}' } },
      { input: user(3), answer: { thought: 'thought-3', text: '{"schema_mark":"answer-3"}' } },
    ],
  },
  {
    name: 'questions that follow each other',
    needs: [],
    features: {},
    turns: [
      { input: user(1), answer: words(1) },
      { input: { user: ['question-2a', 'question-2b'] }, answer: words(2) },
      { input: user(3), answer: words(3) },
    ],
  },
  {
    name: 'results and a question',
    needs: ['tools'],
    features: { tools },
    turns: [
      { input: user(1), answer: { ...words(1), calls: [call('argument-1')] } },
      {
        input: { results: ['result-1'], user: ['question-2'] },
        answer: { thought: 'thought-2', calls: [call('argument-2')] },
      },
      { input: { results: ['result-2'], user: ['question-3'] }, answer: words(3) },
    ],
  },
  {
    name: 'an instruction in the middle',
    needs: ['tools'],
    features: { tools },
    turns: [
      { input: user(1), answer: { thought: 'thought-1', calls: [call('argument-1')] } },
      { input: { results: ['result-1'], instruction: 'instruction-2' }, answer: words(2) },
      { input: { instruction: 'instruction-3', user: ['question-3'] }, answer: words(3) },
    ],
  },
  {
    name: 'settings',
    needs: [],
    features: { settings: true },
    turns: [
      { input: user(1), answer: words(1) },
      { input: user(2), answer: words(2) },
      { input: user(3), answer: words(3) },
    ],
  },
]

/** The marks of all client input and earlier answers that the vendor must receive in this turn. */
export const given = ({ turns, features }: Scenario, turn: number): readonly string[] => {
  const inputs = turns
    .slice(0, turn + 1)
    .flatMap(({ input: { results = [], instruction = [], user = [], picture = [] } }) =>
      [results, instruction, user, picture].flat(),
    )
  const answers = turns
    .slice(0, turn)
    .flatMap(({ answer: { text, calls = [] } }) => [
      ...(text === undefined ? [] : [markIn(text)]),
      ...calls.map(({ arguments: { city } }) => String(city)),
    ])
  const names = (features.tools ?? []).map(({ name }) => name)
  return ['system-words', ...inputs, ...answers, ...names, ...(features.schema ? ['schema_mark'] : [])]
}

const markIn = (text: string): string => /answer-\d/.exec(text)?.[0] ?? text

/** Each call of earlier turns with its result. */
export const pairsOf = ({ turns }: Scenario, turn: number): readonly string[] =>
  turns.slice(0, turn).flatMap(({ answer }, at) => {
    const results = turns[at + 1]?.input.results ?? []
    return (answer.calls ?? []).map(({ arguments: { city } }, index) => `${city}=${results[index]}`)
  })
