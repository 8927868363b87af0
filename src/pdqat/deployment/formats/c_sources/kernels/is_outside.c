KERNEL int is_outside(const tensor *image, int y, int x)
{
    return y < 0 || y >= image->height || x < 0 || x >= image->width;
}
