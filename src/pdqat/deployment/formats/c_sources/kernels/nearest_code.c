/* The nearest whole number, halves to the even one, within the codes. */
KERNEL int32_t nearest_code(float value, int32_t low, int32_t high)
{
    int32_t code;
    float rest;
    if (!(value > (float)low))
        return low;
    if (value >= (float)high)
        return high;
    code = (int32_t)value;
    rest = value - (float)code;
    if (rest > 0.5f || (rest >= 0.5f && code % 2 != 0))
        code++;
    if (rest < -0.5f || (rest <= -0.5f && code % 2 != 0))
        code--;
    return code;
}
