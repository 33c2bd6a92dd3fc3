import { sweep } from './sweep.ts'

sweep('openai-chat')
