/* The mean of a rectangle: rows, columns, then divided by a number. */
KERNEL float mean_of(const tensor *from, int channel, int top, int bottom, int left, int right, int count)
{
    float sum = 0.0f;
    for (int y = top < 0 ? 0 : top; y < bottom && y < from->height; y++)
        for (int x = left < 0 ? 0 : left; x < right && x < from->width; x++)
            sum += real_at(from, y * from->width + x, channel);
    return sum / (float)count;
}
